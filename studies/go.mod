module github.com/funcgp/funcgp/studies

go 1.26.0

replace github.com/funcgp/funcgp => ..

require (
	github.com/funcgp/funcgp v0.0.0-00010101000000-000000000000
	github.com/stretchr/testify v1.12.1
)

require go.yaml.in/yaml/v3 v3.0.5 // indirect
