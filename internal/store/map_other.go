//go:build !unix

package store

import "os"

// mapFile reads a file into memory, for systems on which it cannot be mapped.
func mapFile(path string) ([]byte, func() error, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	return readFile(f)
}
