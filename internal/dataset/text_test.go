package dataset

import (
	"bytes"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/stretchr/testify/require"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/encoding/unicode/utf32"

	"github.com/funcgp/funcgp/internal/testref"
)

// A table reads the same however its text is coded: in memory, by range, and as inputs of one's own.
func TestTextCodings(t *testing.T) {
	const text = "größe,v,y\n1.5,-2,Ja\n3,4e1,Nein\n\"5\",6,Ja\n"
	want := []float64{1.5, -2, 3, 40, 5, 6}
	encoded := func(e encoding.Encoding) []byte { return []byte(testref.Must(e.NewEncoder().String(text))(t)) }
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	testref.Must(w.Write(encoded(unicode.UTF16(unicode.LittleEndian, unicode.UseBOM))))(t)
	require.NoError(t, w.Close())
	comma := func(s string) string {
		return strings.NewReplacer("größe,v,y", "größe;v;y", "1.5,-2,", "1,5;-2;", "3,4e1,", "3;4e1;", ",6,", ";6;").Replace(s)
	}
	for name, data := range map[string][]byte{
		"utf8":      []byte(text),
		"bom":       []byte("\ufeff" + text),
		"utf16le":   encoded(unicode.UTF16(unicode.LittleEndian, unicode.UseBOM)),
		"utf16be":   encoded(unicode.UTF16(unicode.BigEndian, unicode.UseBOM)),
		"utf16":     encoded(unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM)),
		"utf16swap": encoded(unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM)),
		"utf32":     encoded(utf32.UTF32(utf32.LittleEndian, utf32.UseBOM)),
		"returns":   []byte(strings.ReplaceAll(text, "\n", "\r")),
		"windows":   []byte(strings.ReplaceAll(text, "\n", "\r\n")),
		"sep":       []byte("sep=;\r\n" + strings.ReplaceAll(comma(text), "\n", "\r\n")),
		"sepcomma":  []byte("\ufeff\"sep=,\"\n" + text),
		"returned":  []byte(strings.ReplaceAll("sep=;\n"+comma(text), "\n", "\r")),
		"trailing":  []byte(strings.ReplaceAll(text, "\n", ",\n")),
		"emptyrows": []byte(strings.Replace(text, "Ja\n", "Ja,,\n", 1)),
		"zipped":    zipped.Bytes(),
	} {
		path := write(t, t.TempDir(), "a.csv", data)
		for _, far := range []int64{0, 1} {
			d := testref.Must(Open(t.Context(), path, &OpenOptions{ByRange: far}))(t)
			require.Equal(t, []string{"größe", "v"}, d.Columns, name)
			require.Equal(t, []string{"Ja", "Nein"}, d.Names, name)
			require.Equal(t, []int{0, 1, 0}, d.Train.Labels, name)
			require.Equal(t, want, testref.Must(d.Train.Read(t.Context()))(t).RawMatrix().Data, name)
			require.Equal(t, want[2:4], testref.Must(d.Train.At([]int{1}).Read(t.Context()))(t).RawMatrix().Data, name)
			in := testref.Must(ReadInputs(t.Context(), path, &InputOptions{Like: d}))(t)
			require.Equal(t, want, in.Matrix().RawMatrix().Data, name)
			require.NoError(t, d.Close())
		}
	}
}

// Files of other kinds are named by their ending, and by their first bytes where the ending is that of a table.
func TestForeignFiles(t *testing.T) {
	for name, want := range map[string]string{
		"a.xlsx": "is an Excel workbook, which is not read; save its sheet as CSV", "a.feather": "is a Feather file", "a.pkl": `pandas.read_pickle("a.pkl").to_csv("a.csv", index=False)`,
		"a.h5": "is an HDF5 file", "a.json": "is a JSON file", "a.mat": `scipy.io.loadmat("a.mat")`, "a.zip": "is a zip archive", "a.parquet": "is a Parquet file", "a.pt": "is a file of PyTorch",
	} {
		_, err := Open(t.Context(), write(t, t.TempDir(), name, []byte("x")), nil)
		require.ErrorContains(t, err, want, name)
	}
	for head, want := range map[string]string{
		"PK\x03\x04\x14\x00[Content_Types].xml": "a.csv: is an Excel workbook", "PK\x03\x04\x14\x00": "a.csv: is a zip archive", "PAR1": "a.csv: is a Parquet file",
		"\x80\x04\x95\x00": "a.csv: is a pickle", "ARROW1\x00": "a.csv: is a Feather file", "\xd0\xcf\x11\xe0": "a.csv: is an Excel workbook",
	} {
		path := write(t, t.TempDir(), "a.csv", []byte(head))
		for _, far := range []int64{0, 1} {
			_, err := Open(t.Context(), path, &OpenOptions{ByRange: far})
			require.ErrorContains(t, err, want)
		}
	}
}

// What stands where a number or a label must is named with what it is.
func TestFieldsNamed(t *testing.T) {
	for text, want := range map[string]string{
		"u,v,y\n1,NA,0\n":                       `a.csv:2: column 2 (v): "NA" stands for a missing value; fill it in or leave the row out`,
		"u,v,y\n1,?,0\n":                        `a.csv:2: column 2 (v): "?" stands for a missing value`,
		"u,v,y\n1,2,yes\n1,2,NA\n":              `a.csv:3: column 3 (y): "NA" stands for a missing value; fill it in or leave the row out, or name it among the classes`,
		"u,v,y\n1,2,nan\n":                      `a.csv:2: column 3 (y): "nan" stands for a missing value`,
		"u,v,y\n1,2024-01-31,0\n":               `a.csv:2: column 2 (v): "2024-01-31" is a date`,
		"u,v,y\n1,2,31.01.2024\n":               `a.csv:2: column 3 (y): "31.01.2024" is a date; write it as a number`,
		"u,v,y\n1,2,2024-01-31 10:00:00\n":      `a.csv:2: column 3 (y): "2024-01-31 10:00:00" is a date`,
		"u,v,y\n1,true,0\n":                     `a.csv:2: column 2 (v): "true" is not a number; write 1 and 0`,
		"u,v,y\n1,12 %,0\n":                     `a.csv:2: column 2 (v): "12 %" is not a decimal number`,
		"u,v,y\n1,$5,0\n":                       `a.csv:2: column 2 (v): "$5" is not a decimal number`,
		"u,v,y\n1,1e400,0\n":                    `a.csv:2: column 2 (v): "1e400" is too large for a float64`,
		"u,v,y\n1,inf,0\n":                      `a.csv:2: column 2 (v): "inf" is not finite`,
		"5.1,3.5,1.4,setosa\n4.9,3,1.4,other\n": `a.csv:1: numbers where the column names should be: "5.1", "3.5", "1.4", "setosa"; begin the file with a header line`,
		"# made by hand\nu,v,y\n1,2,3\n":        `a.csv:1: one column only`,
		"# made, by hand\nu,v,y\n1,2,3\n":       `a.csv:2: 3 fields, but the header has 2 ("# made"); take out lines of comments`,
		"u,v,y\n# a row\n1,2,3\n":               `a.csv:2: a line of comment: "# a row"; take it out`,
		"gr\xf6\xdfe,v,y\n1,2,3\n":              `a.csv:1: the name of column 1, "gr\xf6\xdfe", is not in UTF-8; save the file in UTF-8`,
		"u,v,y\n1,2,wei\xdf\n":                  `a.csv:2: column 3 (y): "wei\xdf" is not in UTF-8; save the file in UTF-8`,
	} {
		_, err := readCSV(strings.NewReader(text), "a.csv", layout{}, 0)
		require.ErrorContains(t, err, want, text)
	}
	for _, header := range []string{"2019,2020,2021,y", "400.5,401,y", "0,1,2,label", "x1,2,y"} { // names that are numbers
		testref.Must(readCSV(strings.NewReader(header+"\n"+strings.Repeat("1,", strings.Count(header, ","))+"1\n"), "a.csv", layout{}, 0))(t)
	}
	got := testref.Must(readCSV(strings.NewReader("u,y\n1,NA\n2,yes\n"), "a.csv", layout{names: []string{"NA", "yes"}}, 0))(t)
	require.Equal(t, []string{"NA", "yes"}, got.words)
}

// Columns that no input takes may hold anything. Those of text are left out, in memory and by range, in files that are
// joined, in test files and in inputs of one's own; those of numbers stay.
func TestSpareColumns(t *testing.T) {
	dir := t.TempDir()
	path := write(t, dir, "a.csv", []byte("day,u,note,k,v,y\n2024-01-01,1,none,7,2,0\n2024-01-02,3,\"a, b\",8,4,1\n"))
	write(t, dir, "b.csv", []byte("day,u,note,k,v,y\n5,5,6,9,6,1\n"))
	test := write(t, dir, "t.csv", []byte("v,u,day,note,k,y\n8,7,x,NA,NA,1\n"))
	own := write(t, dir, "own.csv", []byte("v,u\n10,9\n"))
	spare := func(columns []string) []bool {
		require.Equal(t, []string{"day", "u", "note", "k", "v"}, columns)
		return []bool{true, false, true, true, false}
	}
	for _, data := range []string{path, dir + "/[ab].csv"} {
		for _, far := range []int64{0, 1} {
			d := testref.Must(Open(t.Context(), data, &OpenOptions{TestFile: test, ByRange: far, Spare: spare}))(t)
			require.Equal(t, []string{"u", "k", "v"}, d.Columns)
			require.Equal(t, []string{"day", "u", "note", "k", "v"}, d.HeaderColumns())
			require.Equal(t, []string{`no input takes "day", "note", where text stands`}, d.Notes)
			require.Equal(t, []float64{1, 7, 2, 3, 8, 4}, testref.Must(d.Train.At([]int{0, 1}).Read(t.Context()))(t).RawMatrix().Data)
			if data != path {
				require.Equal(t, []float64{5, 9, 6}, testref.Must(d.Train.At([]int{2}).Read(t.Context()))(t).RawRowView(0))
			}
			x := testref.Must(d.Test.Read(t.Context()))(t).RawRowView(0)
			require.Equal(t, []float64{7, 8}, []float64{x[0], x[2]})
			require.True(t, bad(x[1]))
			in := testref.Must(ReadInputs(t.Context(), own, &InputOptions{Like: d, Spare: []bool{false, true, false}}))(t)
			x = in.Matrix().RawRowView(0)
			require.Equal(t, []float64{9, 10}, []float64{x[0], x[2]})
			require.NoError(t, d.Close())
		}
	}
	_, err := Open(t.Context(), path, nil)
	require.ErrorContains(t, err, `a.csv:2: column 1 (day): "2024-01-01" is a date`)
}
