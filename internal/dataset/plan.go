package dataset

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/funcgp/funcgp/internal/option"
)

// rowBytes estimates the bytes that a row with T targets takes beside its inputs: its number, its
// label and class, and three copies of its targets (of the file, of selected rows, and for the
// likelihood).
func rowBytes(targets int) float64 { return 8 * float64(3+3*targets) }

// A guess is an estimate of the number of rows in CSV files, and the number of fields of a row.
type guess struct {
	rows   float64 // 0 if unknown
	fields int
}

// sampledRows is the number of decompressed bytes of a file that a guess is based on.
const sampledRows = 1 << 20

// guess estimates the number of rows from the sizes of the files and the first rows of the first
// file. It returns no guess for pipes and for files that cannot be read; reading them later gives
// the error.
func (p storage) guess(ctx context.Context, files []string) (g guess) {
	size := int64(0)
	for _, name := range files {
		info, err := p.stat(name)
		if err != nil || !info.Mode().IsRegular() || ctx.Err() != nil {
			return g
		}
		size += info.Size()
	}
	f, err := p.open(files[0])
	if err != nil {
		return g
	}
	defer f.Close()
	count := &counted{Reader: f}
	in, _, err := plainText(count)
	if err != nil {
		return g
	}
	head := make([]byte, sampledRows)
	n, err := io.ReadFull(in, head)
	if n == 0 || err == nil && count.n == 0 {
		return g
	}
	header, err := newRecords(bytes.NewReader(head[:n]), files[0]).next()
	if err != nil {
		return g
	}
	return guess{float64(bytes.Count(head[:n], []byte{'\n'})) * float64(size) / float64(count.n), len(header)}
}

// counted is a reader that counts the bytes read.
type counted struct {
	io.Reader
	n int64
}

// Read implements io.Reader.
func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += int64(n)
	return n, err
}

// trustedShare is the fraction of a guess that counts as certain, since later rows may be longer than the
// first.
const trustedShare = .75

// plan returns an error if, by the guess, rows with this many targets take more than most bytes.
// The fields of each row count as well, unless stay says that they stay in the file.
func (g guess) plan(name string, targets int, stay bool, most int64) error {
	need := rowBytes(targets)
	if !stay {
		need += 8 * float64(g.fields)
	}
	if need *= g.rows; most <= 0 || trustedShare*need <= float64(most) {
		return nil
	}
	what, remedy := fmt.Sprintf("its about %.0f rows of %d fields take", about(g.rows), g.fields), option.Text("give fewer rows, or allow more memory")
	if stay {
		what = fmt.Sprintf("what is kept of its about %.0f rows takes", about(g.rows))
	} else if strings.HasSuffix(strings.ToLower(name), ".gz") {
		remedy = "decompress it, so that its rows are read where they are needed, " + remedy
	}
	return &Error{File: name, Problem: fmt.Sprintf("%s %.0f bytes of memory, of which %d may be used", what, about(need), most), Remedy: remedy}
}

// about rounds a positive number to two significant digits.
func about(v float64) float64 {
	unit := math.Pow(10, math.Floor(math.Log10(v))-1)
	return math.Round(v/unit) * unit
}
