package console

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestProgress(t *testing.T) {
	var b bytes.Buffer
	p := &progress{out: &b}
	for i := range 10 {
		p.show("kernel", i+1, 20)
	}
	require.Contains(t, b.String(), "kernel")
	require.Contains(t, b.String(), "%")
	p.show("newton", 3, 0)
	require.Contains(t, b.String(), "newton 3")
	p.clear()
	require.True(t, strings.HasSuffix(b.String(), "\r"), "the line is empty again")
	p.clear()

	var none *progress
	none.show("kernel", 1, 2)
	none.clear()
}

// Nothing on a pipe, and nothing with --quiet.
func TestProgressOnPipe(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	defer w.Close()
	require.Nil(t, newProgress(w, false).out)
	require.Nil(t, newProgress(&bytes.Buffer{}, false).out)
	require.Nil(t, newProgress(os.Stderr, true).out)
}
