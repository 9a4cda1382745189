package problem

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"time"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/inputfile"
)

// Record says what an answer that is made now comes from.
func (p *Problem) Record(ctx context.Context, version string) (r result.Record, err error) {
	r = result.Record{Date: time.Now(), Version: version}
	if r.ModelSHA256, err = p.Model.Sum(ctx); err != nil {
		return r, err
	}
	for _, path := range p.Examples.Data.Files() {
		one := result.FileSum{Name: path}
		if one.SHA256, err = inputfile.Sum(ctx, path); err != nil {
			return r, err
		}
		if path != p.Examples.Data.Source {
			one.Name = filepath.Base(path)
		}
		r.DataSHA256 = append(r.DataSHA256, one)
	}
	if p.Saved != nil {
		r.PosteriorSHA256 = p.Saved.File.SHA256()
	}
	return r, nil
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
