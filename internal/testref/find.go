package testref

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// refFile is the file that makes a folder a reference.
const refFile = "reference.safetensors"

// References returns the names of all references, sorted, slash-separated and
// fit for Open. It skips the test where there are none.
func References(t testing.TB) []string {
	t.Helper()
	dirs := roots()
	for _, dir := range dirs {
		var names []string
		// An unreadable folder ends the walk early; what was found still counts.
		_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.Name() != refFile {
				return err
			}
			name, err := filepath.Rel(dir, filepath.Dir(path))
			names = append(names, filepath.ToSlash(name))
			return err
		})
		slices.Sort(names)
		if len(names) > 0 {
			return names
		}
	}
	t.Skipf("no reference numbers in %s", strings.Join(dirs, " or "))
	return nil
}

// Path returns the path of a file of a reference, for example "match/cases.json", from
// where Open takes references. It skips the test where the file is in neither place.
func Path(t testing.TB, name string) string {
	t.Helper()
	dirs := roots()
	for _, root := range dirs {
		if path := filepath.Join(root, filepath.FromSlash(name)); isFile(path) {
			return path
		}
	}
	t.Skipf("no file %q in %s", name, strings.Join(dirs, " or "))
	return ""
}

// MNIST returns the directory that holds MNIST's four IDX files, plain or gz:
// shared/data/mnist beside the repository's root, else funcgp/mnist in the
// user's cache directory. It skips the test where neither holds them.
func MNIST(t testing.TB) string {
	t.Helper()
	var dirs []string
	if root, ok := repository(); ok {
		dirs = append(dirs, filepath.Join(root, "..", "shared", "data", "mnist"))
	}
	if cache, err := os.UserCacheDir(); err == nil {
		dirs = append(dirs, filepath.Join(cache, "funcgp", "mnist"))
	}
	for _, dir := range dirs {
		if holdsMNIST(dir) {
			return dir
		}
	}
	t.Skipf("MNIST's IDX files are not in %s", strings.Join(dirs, " or "))
	return ""
}

func holdsMNIST(dir string) bool {
	for _, name := range []string{
		"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
		"t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte",
	} {
		if !isFile(filepath.Join(dir, name)) && !isFile(filepath.Join(dir, name+".gz")) {
			return false
		}
	}
	return true
}

// Folder returns the folder of this name beside the references that holds a file, as the reference
// match holds cases.json, in tables and networks rather than tensors. It skips the test where there is none.
func Folder(t testing.TB, name, file string) string {
	t.Helper()
	dirs := roots()
	for _, root := range dirs {
		dir := filepath.Join(root, filepath.FromSlash(name))
		if isFile(filepath.Join(dir, file)) {
			return dir
		}
	}
	t.Skipf("no %s/%s in %s", name, file, strings.Join(dirs, " or "))
	return ""
}

// roots returns where references may lie, the repository's own first.
func roots() []string {
	root, ok := repository()
	if !ok {
		return nil
	}
	return []string{
		filepath.Join(root, "testdata", "reference"),
		filepath.Join(root, "..", "shared", "reference"),
	}
}

// repository walks up from the working directory to the folder of this module, past those of nested modules.
func repository() (string, bool) {
	dir, err := os.Getwd()
	if err != nil {
		return "", false
	}
	for {
		if mod, err := os.ReadFile(filepath.Join(dir, "go.mod")); err == nil && moduleLine.Match(mod) {
			return dir, true
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", false
		}
		dir = up
	}
}

var moduleLine = regexp.MustCompile(`(?m)^module github\.com/funcgp/funcgp\r?$`)

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
