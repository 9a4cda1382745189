package dataset

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/encoding/unicode/utf32"
	"golang.org/x/text/transform"

	"github.com/funcgp/funcgp/internal/option"
)

// plainText returns the text of a file in UTF-8 whose lines end in line feeds. It decompresses a gzipped file,
// decodes UTF-16 and UTF-32, and replaces carriage returns that end lines without a line feed. changed tells
// whether the text differs from the bytes of the file. The error is an *Error without the name of a file, or
// comes from the reader.
func plainText(r io.Reader) (text io.Reader, changed bool, err error) {
	packed := bufio.NewReader(r)
	head, _ := packed.Peek(2)
	changed = string(head) == "\x1f\x8b"
	if r, err = unzipped(packed); err != nil {
		return nil, false, err
	}
	b := bufio.NewReaderSize(r, sniffed)
	head, _ = b.Peek(sniffed) // reading the text returns the error again
	if kind := foreign(head); kind != nil {
		return nil, false, kind.error("")
	}
	if e := wideEncoding(head); e != nil {
		b, changed = bufio.NewReaderSize(transform.NewReader(b, e.NewDecoder()), sniffed), true
		head, _ = b.Peek(sniffed)
	}
	if returnsAlone(head) {
		return lineFeeds{b}, true, nil
	}
	return b, changed, nil
}

// wideEncoding returns the encoding of a text with two or four bytes for each character, which it recognizes by
// the byte order mark or by zeros among the first bytes; nil for other texts.
func wideEncoding(head []byte) encoding.Encoding {
	switch {
	case bytes.HasPrefix(head, []byte("\xff\xfe\x00\x00")), bytes.HasPrefix(head, []byte("\x00\x00\xfe\xff")):
		return utf32.UTF32(utf32.BigEndian, utf32.UseBOM)
	case bytes.HasPrefix(head, []byte("\xff\xfe")), bytes.HasPrefix(head, []byte("\xfe\xff")):
		return unicode.UTF16(unicode.BigEndian, unicode.UseBOM)
	}
	// Half of the bytes of a table in UTF-16 are zero, all of them at even or at odd places.
	var zeros [2]int
	head = head[:min(len(head)&^1, 256)]
	for i, c := range head {
		if c == 0 {
			zeros[i%2]++
		}
	}
	switch {
	case zeros[0] == 0 && zeros[1] > len(head)/4:
		return unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM)
	case zeros[1] == 0 && zeros[0] > len(head)/4:
		return unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM)
	}
	return nil
}

// returnsAlone reports whether lines end in carriage returns without line feeds.
func returnsAlone(head []byte) bool {
	quoted, returns := false, false
	for _, c := range head {
		switch {
		case c == '"':
			quoted = !quoted
		case c == '\n' && !quoted:
			return false
		case c == '\r' && !quoted:
			returns = true
		}
	}
	return returns
}

// lineFeeds is a reader that replaces carriage returns by line feeds.
type lineFeeds struct{ io.Reader }

// Read implements io.Reader.
func (r lineFeeds) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	for i, c := range p[:n] {
		if c == '\r' {
			p[i] = '\n'
		}
	}
	return n, err
}

// A foreignKind is a kind of file that cannot be read, with advice on converting it.
type foreignKind struct {
	name    string // with its article
	endings []string
	magic   []string // possible first bytes
	remedy  string   // NAME stands for the name of the file without its ending
}

// pandas returns the advice to convert a file with a function of pandas.
func pandas(read, ending string) string {
	return fmt.Sprintf("convert it, for example with pandas.read_%s(\"NAME%s\").to_csv(\"NAME.csv\", index=False)", read, ending)
}

// foreignKinds are recognized by their ending or by their first bytes, but those that begin like an archive of arrays
// by their ending only.
var foreignKinds = []foreignKind{
	{"an Excel workbook", []string{".xlsx", ".xlsm", ".xls"}, []string{"\xd0\xcf\x11\xe0"}, "save its sheet as CSV, or " + pandas("excel", ".xlsx")},
	{"an OpenDocument sheet", []string{".ods"}, nil, "save it as CSV, or " + pandas("excel", ".ods")},
	// Package parquet, which registers the format, is a module of its own, because the Parquet library
	// github.com/parquet-go/parquet-go depends on seven modules and makes a program that only opens a file 17 MB
	// large.
	{"a Parquet file", []string{".parquet"}, []string{"PAR1"}, pandas("parquet", ".parquet")},
	{"a Feather file", []string{".feather", ".arrow"}, []string{"ARROW1", "FEA1"}, pandas("feather", ".feather")},
	{"a pickle", []string{".pkl", ".pickle"}, []string{"\x80\x02", "\x80\x03", "\x80\x04", "\x80\x05"}, pandas("pickle", ".pkl")},
	{"an HDF5 file", []string{".h5", ".hdf5"}, []string{"\x89HDF"}, pandas("hdf", ".h5")},
	{"a Stata file", []string{".dta"}, nil, pandas("stata", ".dta")},
	{"an SPSS file", []string{".sav"}, nil, pandas("spss", ".sav")},
	{"a JSON file", []string{".json", ".jsonl"}, nil, pandas("json", ".json")},
	{"a file of SVMlight", []string{".svm", ".svmlight", ".libsvm"}, nil, "x, y = sklearn.datasets.load_svmlight_file(path) reads it; save numpy.savez(\"NAME.npz\", x=x.toarray(), y=y)"},
	{"a MATLAB file", []string{".mat"}, []string{"MATLAB 5.0"}, "save its arrays with numpy.savez(\"NAME.npz\", x=x, y=y), after scipy.io.loadmat(\"NAME.mat\")"},
	{"a file of PyTorch", []string{".pt", ".pth"}, nil, "save its tensors with numpy.savez(\"NAME.npz\", x=x.numpy(), y=y.numpy())"},
	{"a zip archive", []string{".zip"}, []string{"PK\x03\x04"}, "take the table out of it"},
}

// foreign returns the kind of a file with these first bytes, nil for a text.
func foreign(head []byte) *foreignKind {
	if bytes.HasPrefix(head, []byte("PK\x03\x04")) && bytes.Contains(head, []byte("[Content_Types].xml")) {
		return foreignByName(".xlsx")
	}
	for i := range foreignKinds {
		for _, magic := range foreignKinds[i].magic {
			if bytes.HasPrefix(head, []byte(magic)) {
				return &foreignKinds[i]
			}
		}
	}
	return nil
}

// foreignByName returns the kind of a file by the ending of its name, nil for others.
func foreignByName(path string) *foreignKind {
	ending := strings.ToLower(filepath.Ext(path))
	for i := range foreignKinds {
		for _, e := range foreignKinds[i].endings {
			if e == ending {
				return &foreignKinds[i]
			}
		}
	}
	return nil
}

// error returns the error that files of this kind cannot be read.
func (k *foreignKind) error(path string) *Error {
	name := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	if path == "" {
		name = "data"
	}
	return &Error{File: path, Problem: "is " + k.name + ", which is not read", Remedy: option.Plain(strings.ReplaceAll(k.remedy, "NAME", name))}
}
