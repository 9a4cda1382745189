package dataset

import (
	"os"
	"slices"
)

// Files returns the paths of the files that the rows and labels of all parts were
// read from, each once. Data that were made, or read from a pipe, have none.
func (d *Data) Files() []string {
	var list []string
	for _, s := range d.parts() {
		files := s.files
		if files == nil {
			files = []string{s.File}
		}
		for _, path := range append(slices.Clone(files), s.labelFile) {
			if path == "" || slices.Contains(list, path) {
				continue
			}
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
				list = append(list, path)
			}
		}
	}
	return list
}
