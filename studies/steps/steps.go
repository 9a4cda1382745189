// Package steps keeps the results of a study's steps, so that a study which was interrupted goes on
// where it ended.
package steps

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/funcgp/funcgp/internal/atomicfile"
)

// Do returns the result of a step: what dir/name.json holds, or else what do computes, which it then
// writes there. An empty dir keeps nothing. A cancelled context ends it with ctx.Err().
func Do[T any](ctx context.Context, dir, name string, do func(ctx context.Context) (T, error)) (T, error) {
	var result T
	if err := ctx.Err(); err != nil {
		return result, err
	}
	path := filepath.Join(dir, name+".json")
	if dir != "" {
		text, err := os.ReadFile(path)
		switch {
		case err == nil:
			if err := json.Unmarshal(text, &result); err != nil {
				return result, fmt.Errorf("%s: %w; remove it to compute the step again", path, err)
			}
			return result, nil
		case !errors.Is(err, fs.ErrNotExist):
			return result, err
		}
	}
	result, err := do(ctx)
	if err != nil || dir == "" {
		return result, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return result, err
	}
	text, err := json.Marshal(result)
	if err != nil {
		return result, err
	}
	return result, atomicfile.Write(path, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}
