package dataset

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/gzip"
)

// records reads the records of a CSV file, gzipped or not. Its errors name the file and line.
type records struct {
	*csv.Reader
	name    string
	in      *bounded
	decimal decimalCommas
	start   int64 // bytes of the file before the Reader's first byte
	before  int   // lines of the file before the Reader's first line
	again   bool  // next shall return the last record again
	last    []string
	err     error // error of opening the file, which next returns
}

// maxRecord bounds the bytes of one record, so that a file that is no table
// cannot fill the memory.
const maxRecord = 64 << 20

// A bounded reader fails with errLong when no bytes are left.
type bounded struct {
	io.Reader
	left int
}

var errLong = errors.New("too long")

// Read implements io.Reader.
func (b *bounded) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, errLong
	}
	n, err := b.Reader.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// bom is the byte order mark with which some programs begin a file.
const bom = "\ufeff"

// sniffed is the number of bytes of a file that are examined to find its separator.
const sniffed = 64 << 10

// newRecords reads a file whose fields are separated by commas, semicolons or tabs; the first line
// decides which.
func newRecords(r io.Reader, name string) *records {
	r, _, err := plainText(r)
	if err != nil {
		r = strings.NewReader("")
	}
	in := plainRecords(r, name, 0)
	in.err = err
	return in
}

// plainRecords is newRecords for text that plainText returned. If comma is not 0, it is the
// separator, and the reader may begin at any record.
func plainRecords(r io.Reader, name string, comma rune) *records {
	in := &records{name: name, in: &bounded{r, maxRecord}}
	b := bufio.NewReaderSize(in.in, sniffed)
	if comma == 0 {
		if head, _ := b.Peek(len(bom)); string(head) == bom {
			_, _ = b.Discard(len(bom)) // the bytes were peeked, so this cannot fail
			in.start = int64(len(bom))
		}
		head, _ := b.Peek(sniffed) // reading the records returns the error again
		if said, length := saidSeparator(head); length > 0 {
			_, _ = b.Discard(length)
			in.start, in.before, comma = in.start+int64(length), 1, said
		} else {
			comma = separator(head)
		}
	}
	in.Reader = csv.NewReader(b)
	in.Comma = comma
	in.FieldsPerRecord = -1
	in.ReuseRecord = true
	in.TrimLeadingSpace = in.Comma != '\t' // it would swallow an empty field between tabs
	return in
}

// unzipped decompresses a gzipped file and returns other files unchanged.
func unzipped(r io.Reader) (io.Reader, error) {
	b := bufio.NewReader(r)
	if head, _ := b.Peek(2); string(head) != "\x1f\x8b" {
		return b, nil
	}
	return gzip.NewReader(b)
}

// saidSeparator returns the separator that a first line such as "sep=;" states, with which Excel begins a
// file, and the length of the line in bytes. Both are 0 if there is no such line.
func saidSeparator(head []byte) (comma rune, length int) {
	end := bytes.IndexByte(head, '\n')
	if end < 0 {
		return 0, 0
	}
	said, ok := strings.CutPrefix(strings.ToLower(strings.Trim(string(head[:end]), "\"\r")), "sep=")
	if !ok || len(said) != 1 || !strings.Contains(",;\t|: ", said) {
		return 0, 0
	}
	return rune(said[0]), end + 1
}

// separator returns the separator of the fields of the first line. Semicolons or tabs are chosen if
// there are at least as many of them as commas, or if the fields between them are numbers, whose
// commas are then decimal.
func separator(head []byte) rune {
	head = bytes.TrimLeft(head, "\r\n")
	count, quoted, end := map[byte]int{}, false, len(head)
	for i, c := range head {
		if c == '"' {
			quoted = !quoted
		} else if c == '\n' && !quoted {
			end = i
			break
		} else if !quoted {
			count[c]++
		}
	}
	for _, c := range []byte{'\t', ';'} {
		fields := strings.Split(string(head[:end]), string(c))
		if count[c] > 0 && (count[c] >= count[','] || numbers(fields, rune(c)) == len(fields)) {
			return rune(c)
		}
	}
	return ','
}

// next returns the next record, which the next call overwrites. The error is
// io.EOF at the end, the error of a context that is done, or an *Error.
func (in *records) next() ([]string, error) {
	if in.again {
		in.again = false
		return in.last, nil
	}
	in.in.left = maxRecord
	rec, err := []string(nil), in.err
	if err == nil {
		rec, err = in.Read()
		in.last = rec
	}
	if err == nil || err == io.EOF || interrupted(err) {
		return rec, err
	}
	if e := (*Error)(nil); errors.As(err, &e) {
		said := *e
		said.File = in.name
		return nil, &said
	}
	if errors.Is(err, errLong) {
		return nil, &Error{File: in.name, Problem: fmt.Sprintf("a line of more than %d bytes", maxRecord), Remedy: "give a table with one row of numbers a line"}
	}
	e := &Error{File: in.name, Problem: "cannot be read", Err: err}
	var p *csv.ParseError
	switch {
	case errors.As(err, &p):
		e.Line, e.Place, e.Problem, e.Err = in.before+p.Line, fmt.Sprintf("byte %d of the line", p.Column), p.Err.Error(), nil
		e.Remedy = "write plain CSV: commas, semicolons or tabs between fields, quotes only around whole fields"
	case errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum), errors.Is(err, io.ErrUnexpectedEOF):
		e.Problem, e.Remedy = "its gzip compression is damaged", "compress it again"
	}
	return nil, e
}

// line returns the line of field j of the current record.
func (in *records) line(j int) int {
	l, _ := in.FieldPos(j)
	return in.before + l
}

// place returns the place of field j for messages.
func place(j int, column string) string {
	if column == "" {
		return fmt.Sprintf("column %d", j+1)
	}
	return fmt.Sprintf("column %d (%s)", j+1, column)
}
