package job

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/atomicfile"
	"github.com/funcgp/funcgp/internal/option"
	"github.com/funcgp/funcgp/internal/store"
)

func TestStatus(t *testing.T) {
	for _, x := range []struct {
		err  error
		code int
		line string
	}{
		{nil, 0, ""},
		{errors.New("broken"), 1, "gpexplain: broken\n"},
		{Usagef("--top %d", 0), 2, "gpexplain: --top 0\n"},
		{fmt.Errorf("reading: %w", Usagef("no")), 2, "gpexplain: reading: no\n"},
		{fmt.Errorf("kernel: %w", context.Canceled), 130, "gpexplain: interrupted\n"},
		{errors.New("a\r\n\tb\x1b[2Jc\u202ed\xff"), 1, "gpexplain: a b [2Jc d\uFFFD\n"},
		{errors.New("two  spaces.onnx"), 1, "gpexplain: two  spaces.onnx\n"},
		// what another place or a later time may mend, through all that wraps it
		{fmt.Errorf("x: %w", &atomicfile.Error{Path: "a.gp", Err: syscall.EDQUOT}), 75, "gpexplain: x: cannot write a.gp: disk quota exceeded; free some space or choose another disk\n"},
		{&store.Error{File: "a.gp", Problem: "cannot be read: too many open files", Err: &fs.PathError{Err: syscall.EMFILE}}, 75, "gpexplain: a.gp: cannot be read: too many open files\n"},
		{FullErrorf("the file: %w", syscall.EIO), 75, "gpexplain: the file: input/output error\n"},
		{errors.Join(syscall.ENOSPC, context.Canceled), 130, "gpexplain: interrupted\n"},
		// and what it does not
		{&store.Error{File: "a.gp", Problem: "cannot be opened: no such file or directory", Err: syscall.ENOENT}, 1, "gpexplain: a.gp: cannot be opened: no such file or directory\n"},
		{&atomicfile.Error{Path: "a.gp", Err: syscall.EACCES}, 1, "gpexplain: cannot write a.gp: permission denied; choose a place you may write to\n"},
	} {
		var b bytes.Buffer
		require.Equal(t, x.code, Status(&b, "gpexplain", option.Flags, x.err))
		require.Equal(t, x.line, b.String())
	}
	for err, line := range map[error]string{
		errors.New("a<b\nc"): `{"message":"a<b c"}`,
		Usagef("{weight-decay=0} is no prior; give {at=stated} for %q", "--x"): `{"message":"weight_decay=0 is no prior; give at=\"stated\" for \"--x\"","argument":"weight_decay"}`,
	} {
		var b bytes.Buffer
		Status(&b, "gpexplain", option.Python, err)
		require.Equal(t, line+"\n", b.String())
	}
}
