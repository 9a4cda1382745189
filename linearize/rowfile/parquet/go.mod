module github.com/funcgp/funcgp/linearize/rowfile/parquet

go 1.26.0

replace github.com/funcgp/funcgp => ../../../

require (
	github.com/funcgp/funcgp v0.0.0-00010101000000-000000000000
	github.com/parquet-go/parquet-go v0.32.0
	github.com/stretchr/testify v1.12.1
)

require (
	github.com/andybalholm/brotli v1.1.1 // indirect
	github.com/bep/imagemeta v1.0.1 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/klauspost/compress v1.20.3 // indirect
	github.com/parquet-go/bitpack v1.0.0 // indirect
	github.com/parquet-go/jsonlite v1.0.0 // indirect
	github.com/pierrec/lz4/v4 v4.1.21 // indirect
	github.com/twpayne/go-geom v1.6.1 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/image v0.30.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.41.0 // indirect
	gonum.org/v1/gonum v0.17.0 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)
