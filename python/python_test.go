// Package python_test runs the tests of the Python package.
package python_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// interpreter is a Python that has NumPy and PyTorch, or else NumPy alone, or "".
func interpreter() string {
	for _, modules := range []string{"numpy, torch", "numpy"} {
		for _, python := range []string{"python3", "/usr/bin/python3"} {
			if exec.Command(python, "-c", "import "+modules).Run() == nil {
				return python
			}
		}
	}
	return ""
}

func TestPackage(t *testing.T) {
	python := interpreter()
	if python == "" {
		t.Skip("there is no Python with NumPy (Debian: apt install python3-torch)")
	}
	binary := filepath.Join(t.TempDir(), "gpexplain")
	out, err := exec.Command("go", "build", "-o", binary, "../cmd/gpexplain").CombinedOutput()
	require.NoError(t, err, string(out))
	for _, name := range []string{"answers", "export", "files", "modules", "names", "processes", "sklearn", "wheel", "notebook"} {
		t.Run(name, func(t *testing.T) {
			test := exec.Command(python, "-W", "ignore", "-m", "unittest", "-v", "test_"+name)
			test.Dir = "tests"
			test.Env = append(os.Environ(), "FUNCGP_BINARY="+binary, "PYTHONPATH=.."+string(os.PathListSeparator)+".", "PYTHONDONTWRITEBYTECODE=1")
			out, err := test.CombinedOutput()
			require.NoError(t, err, string(out))
			if skipped := "skipped="; strings.Contains(string(out), skipped) {
				t.Log(string(out)) // says why
			}
		})
	}
}
