package inputfile

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
)

// Sum is the SHA-256 in hex of a regular file, or of several one after another, and ""
// if one of them is another file, which cannot be read a second time.
func Sum(ctx context.Context, paths ...string) (string, error) {
	h := sha256.New()
	for _, path := range paths {
		if info, err := os.Stat(path); path == "" || err == nil && !info.Mode().IsRegular() {
			return "", nil
		}
		if err := copyTo(ctx, h, path); err != nil {
			return "", fmt.Errorf("%s: its checksum: %w", path, err)
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// copyTo writes the content of a file to w.
func copyTo(ctx context.Context, w io.Writer, path string) error {
	f, err := Open(ctx, path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(w, f)
	return err
}
