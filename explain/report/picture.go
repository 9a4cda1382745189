package report

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"html/template"
	"image/png"
	"strconv"

	"github.com/funcgp/funcgp/explain/result"
)

// dataURI returns the image as a PNG inside a URL, or "" without an image.
func dataURI(p result.Picture) (template.URL, error) {
	if p.Image == nil {
		return "", nil
	}
	var b bytes.Buffer
	enc := png.Encoder{CompressionLevel: png.BestCompression}
	if err := enc.Encode(&b, p.Image); err != nil {
		return "", fmt.Errorf("report: encoding a picture: %w", err)
	}
	// Base64 of our own PNG contains no text of the caller, so it is safe.
	return template.URL("data:image/png;base64," + base64.StdEncoding.EncodeToString(b.Bytes())), nil
}

func featureName(p result.Picture, i int) string {
	if i < len(p.Names) {
		return p.Names[i]
	}
	return "x" + strconv.Itoa(i+1)
}
