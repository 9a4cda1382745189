package problem

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	"github.com/funcgp/funcgp/internal/inputfile"
)

// Sums are the SHA-256 in hex of the model, as Model.Sum, and of each file of the data.
func (p *Problem) Sums(ctx context.Context) (model string, data []FileCheck, err error) {
	if model, err = p.Model.Sum(ctx); err != nil {
		return "", nil, err
	}
	data = []FileCheck{}
	for _, path := range p.Examples.Data.Files() {
		one := FileCheck{Path: path}
		if one.SHA256, err = inputfile.Sum(ctx, path); err != nil {
			return "", nil, err
		}
		data = append(data, one)
	}
	return model, data, nil
}

// Sum is the SHA-256 in hex of the model's file, followed by those in which it keeps its weights, or of what ONNX gives
// of one that has no file.
func (m *Model) Sum(ctx context.Context) (string, error) {
	if m.Path != "" {
		return inputfile.Sum(ctx, m.Files()...)
	}
	file := Builtin
	if m.Name != builtinName {
		var err error
		if file, err = m.ONNX(); err != nil {
			return "", err
		}
	}
	sum := sha256.Sum256(file)
	return hex.EncodeToString(sum[:]), nil
}
