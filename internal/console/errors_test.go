package console

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/job"
)

func TestStatus(t *testing.T) {
	for _, x := range []struct {
		err  error
		code int
		line string
	}{
		{nil, 0, ""},
		{errors.New("broken"), 1, "gpexplain: broken\n"},
		{job.Usagef("--top %d", 0), 2, "gpexplain: --top 0\n"},
		{fmt.Errorf("reading: %w", job.Usagef("no")), 2, "gpexplain: reading: no\n"},
		{fmt.Errorf("kernel: %w", context.Canceled), 130, "gpexplain: interrupted\n"},
		{errors.New("a\r\n\tb\x1b[2Jc\u202ed\xff"), 1, "gpexplain: a b [2Jc d\uFFFD\n"},
		{errors.New("two  spaces.onnx"), 1, "gpexplain: two  spaces.onnx\n"},
	} {
		var b bytes.Buffer
		require.Equal(t, x.code, Status(&b, x.err))
		require.Equal(t, x.line, b.String())
	}
}
