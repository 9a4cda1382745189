// Package store keeps fitted posteriors in files. Files have a version and checksums, are written atomically, and
// are mapped into memory when read.
//
//	post, err := gp.Fit(ctx, kernel, train, sites, nil) // or sparse, glm
//	err = store.Write("digits.gp", "my posterior", 1, func(w *store.Writer) error {
//		w.JSON("about", map[string]string{"model": modelHash, "data": dataHash})
//		return post.Save(w)
//	})
//
//	f, err := store.Open("digits.gp", "my posterior", 1) // in any process
//	defer f.Close()                                      // after the last use of post
//	err = f.JSON("about", &about)                        // compare the hashes
//	post, err := gp.Load(f, kernel, train, nil)
//	err = post.PredictTo(ctx, &mean, &cov, test)         // bit for bit the same
//
// A file is a list of named sections of numbers, bytes or JSON. A posterior adds the sections that its Save
// documents. Each kind of posterior has a prefix for their names, so that several kinds, and sections of the
// caller, can share a file. Floats returns memory of the mapped file. A large posterior therefore takes memory only
// where it is used, and several processes share it. That memory is read-only, and writing to it ends the program.
// While a File is open, Write may replace its file, but nothing may write into the file.
//
// # Format
//
// All integers are little-endian. A file starts with a 64-byte header: the magic number, the version of the format,
// the kind and version of the content, the offset and length of the table of contents, and the CRC-32C of the table
// and of the header itself. Then come the sections, each at a multiple of 64 bytes with zeros between them, and
// then the table: a JSON array of name, offset, length and CRC-32C. Opening a file verifies the header, the table
// and the zeros. The first reading of a section verifies its checksum. Every flipped bit is therefore found before
// the damaged content is used.
package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"iter"
	"math"
	"os"
	"slices"
	"unsafe"

	"github.com/funcgp/funcgp/internal/atomicfile"
)

const (
	magic      = "fgpstor\n"
	format     = 1
	headerSize = 64
	align      = 64
	kindSize   = 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// An Error says what is wrong with a stored file.
type Error struct {
	File, Problem, Remedy string
	Err                   error // the cause, of which Problem has the text; nil for none
}

// Error returns the file, the problem and the remedy in one line.
func (e *Error) Error() string {
	s := e.File + ": " + e.Problem
	if e.Remedy != "" {
		s += "; " + e.Remedy
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

type entry struct {
	Name   string `json:"name"`
	Offset int64  `json:"offset"`
	Length int64  `json:"length"`
	CRC    uint32 `json:"crc32c"`
}

// A Writer appends sections to a file. It keeps its first error, which Write returns.
type Writer struct {
	out   io.Writer
	at    int64
	table []entry
	err   error
}

// Write writes a file with a kind (1 to 20 bytes) and a version. The file appears under its name once it is
// complete. For a pipe or a device Write calls fill twice, first to measure the sections and then to write them, so
// that it needs no copy. fill must add the same sections both times.
func Write(path, kind string, version uint32, fill func(w *Writer) error) error {
	if len(kind) == 0 || len(kind) > kindSize {
		panic("store: kind must have 1 to 20 bytes")
	}
	return atomicfile.Write(path, func(out io.Writer) error {
		return writeTo(out, kind, version, fill)
	})
}

// writeTo calls fill to write the sections. Where the header cannot be written after them, it first calls fill to
// measure them, so that nothing is held in memory.
func writeTo(out io.Writer, kind string, version uint32, fill func(w *Writer) error) error {
	file, ok := out.(atomicfile.Rewriter)
	if !ok {
		// The header comes first, so measure the sections before.
		measured, table, err := sectionsTo(io.Discard, nil, fill)
		if err != nil {
			return err
		}
		_, again, err := sectionsTo(out, header(kind, version, measured.at, table), fill)
		if err != nil {
			return err
		}
		if !bytes.Equal(table, again) {
			return errors.New("the content changed while it was written")
		}
		_, err = out.Write(table)
		return err
	}
	w, table, err := sectionsTo(out, make([]byte, headerSize), fill)
	if err != nil {
		return err
	}
	if _, err := out.Write(table); err != nil {
		return err
	}
	return file.Rewrite(header(kind, version, w.at, table), 0)
}

// sectionsTo writes head and the sections, and returns the table of the sections.
func sectionsTo(out io.Writer, head []byte, fill func(w *Writer) error) (w *Writer, table []byte, err error) {
	if _, err := out.Write(head); err != nil {
		return nil, nil, err
	}
	w = &Writer{out: out, at: headerSize}
	if err := fill(w); err != nil {
		return nil, nil, err
	}
	if err := w.err; err != nil {
		return nil, nil, err
	}
	table, err = json.Marshal(w.table)
	return w, table, err
}

func header(kind string, version uint32, tableAt int64, table []byte) []byte {
	h := make([]byte, headerSize)
	copy(h, magic)
	binary.LittleEndian.PutUint32(h[8:], format)
	copy(h[12:12+kindSize], kind)
	binary.LittleEndian.PutUint32(h[32:], version)
	binary.LittleEndian.PutUint64(h[40:], uint64(tableAt))
	binary.LittleEndian.PutUint64(h[48:], uint64(len(table)))
	binary.LittleEndian.PutUint32(h[56:], crc32.Checksum(table, castagnoli))
	binary.LittleEndian.PutUint32(h[60:], crc32.Checksum(h[:60], castagnoli))
	return h
}

// Bytes adds a section. It panics for a name that was used before.
func (w *Writer) Bytes(name string, data []byte) {
	w.section(name, func(add func([]byte)) { add(data) })
}

// section adds a section that fill writes in parts.
func (w *Writer) section(name string, fill func(add func(b []byte))) {
	for _, e := range w.table {
		if e.Name == name {
			panic("store: section written twice")
		}
	}
	e := entry{Name: name, Offset: w.at}
	fill(func(b []byte) {
		e.CRC = checksum(e.CRC, b, checksumPart)
		w.write(b)
	})
	e.Length = w.at - e.Offset
	w.table = append(w.table, e)
	w.write(make([]byte, (align-w.at%align)%align))
}

func (w *Writer) write(b []byte) {
	w.at += int64(len(b))
	if w.err == nil {
		_, w.err = w.out.Write(b)
	}
}

// Floats adds a section of float64 numbers.
func (w *Writer) Floats(name string, v []float64) {
	w.FloatRows(name, func(yield func([]float64) bool) { yield(v) })
}

// FloatRows adds a section of float64 numbers that come in parts, so that they need not be copied into one slice.
func (w *Writer) FloatRows(name string, rows iter.Seq[[]float64]) {
	w.section(name, func(add func([]byte)) {
		for v := range rows {
			add(bytesOf(v))
		}
	})
}

// bytesOf returns the numbers as little-endian bytes.
func bytesOf(v []float64) []byte {
	if littleEndian {
		return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), 8*len(v))
	}
	b := make([]byte, 0, 8*len(v))
	for _, x := range v {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(x))
	}
	return b
}

var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// JSON adds a section with v as JSON.
func (w *Writer) JSON(name string, v any) {
	b, err := json.Marshal(v)
	if err != nil && w.err == nil {
		w.err = err
	}
	w.Bytes(name, b)
}

// A File is an open stored file. Close it after the last use of anything read from it. Only one goroutine may use
// it at a time.
type File struct {
	path    string
	version uint32
	data    []byte
	names   []string
	table   map[string]*entry
	checked map[string]bool
	unmap   func() error
}

// Open maps a file of the given kind and of at most the given version. The error is an *Error for a file of another
// kind, a newer version, and a truncated or damaged file.
func Open(path, kind string, version uint32) (*File, error) {
	data, unmap, err := mapFile(path)
	if err != nil {
		var p *os.PathError
		if errors.As(err, &p) {
			return nil, &Error{path, "cannot be opened: " + p.Err.Error(), "check the path and its permissions", p.Err}
		}
		return nil, &Error{path, "cannot be read: " + err.Error(), "", err}
	}
	return newFile(path, kind, version, data, unmap)
}

// newFile checks data and returns its File. unmap releases data.
func newFile(path, kind string, version uint32, data []byte, unmap func() error) (*File, error) {
	f := &File{path: path, data: data, unmap: unmap, table: map[string]*entry{}, checked: map[string]bool{}}
	if err := f.open(kind, version); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func (f *File) damaged(format string, args ...any) error {
	return &Error{f.path, fmt.Sprintf(format, args...), "write it again", nil}
}

func (f *File) open(kind string, version uint32) error {
	size := int64(len(f.data))
	if size < headerSize || string(f.data[:8]) != magic {
		return &Error{f.path, "is not a file of this program", "name a file that fit wrote", nil}
	}
	h := f.data[:headerSize]
	if crc32.Checksum(h[:60], castagnoli) != binary.LittleEndian.Uint32(h[60:]) {
		return f.damaged("its header is damaged (checksum)")
	}
	if v := binary.LittleEndian.Uint32(h[8:]); v != format {
		return &Error{f.path, fmt.Sprintf("has format %d, this program reads format %d", v, format), "fit and save it again with this program", nil}
	}
	if got := string(bytes.TrimRight(h[12:12+kindSize], "\x00")); got != kind {
		return &Error{f.path, fmt.Sprintf("holds a %q, not a %q", got, kind), "name another file", nil}
	}
	if f.version = binary.LittleEndian.Uint32(h[32:]); f.version > version {
		return &Error{f.path, fmt.Sprintf("has version %d, this program reads up to %d", f.version, version), "use a newer program", nil}
	}
	at, n := binary.LittleEndian.Uint64(h[40:]), binary.LittleEndian.Uint64(h[48:])
	if at > uint64(size) || n != uint64(size)-at {
		return f.damaged("is %d bytes long, %d were written", size, at+n)
	}
	table := f.data[at:]
	if crc32.Checksum(table, castagnoli) != binary.LittleEndian.Uint32(h[56:]) {
		return f.damaged("its table of contents is damaged (checksum)")
	}
	var list []entry
	if err := json.Unmarshal(table, &list); err != nil {
		return f.damaged("its table of contents cannot be read")
	}
	return f.checkLayout(list, int64(at))
}

// checkLayout returns an error unless the sections are one after the other, with zeros between them, up to end.
func (f *File) checkLayout(list []entry, end int64) error {
	at := int64(headerSize)
	for i := range list {
		e := &list[i]
		if e.Offset != at || e.Length < 0 || e.Length > end-at || f.table[e.Name] != nil {
			return f.damaged("section %q is out of place", e.Name)
		}
		f.table[e.Name], f.names = e, append(f.names, e.Name)
		stop := at + e.Length
		at = (stop + align - 1) / align * align
		if at > end {
			return f.damaged("section %q is out of place", e.Name)
		}
		for _, b := range f.data[stop:at] {
			if b != 0 {
				return f.damaged("there are bytes after section %q", e.Name)
			}
		}
	}
	if at != end {
		return f.damaged("there are bytes after the last section")
	}
	return nil
}

// Path returns the path with which the file was opened.
func (f *File) Path() string { return f.path }

// SHA256 returns the SHA-256 checksum of the file in hexadecimal.
func (f *File) SHA256() string { return fmt.Sprintf("%x", sha256.Sum256(f.data)) }

// Version returns the version of the content.
func (f *File) Version() uint32 { return f.version }

// Sections returns the names of all sections in the order of the file.
func (f *File) Sections() []string { return slices.Clone(f.names) }

// Has tells whether there is a section with this name.
func (f *File) Has(name string) bool { return f.table[name] != nil }

// Bytes returns a section, read-only and valid until Close. The first call verifies its checksum. The error is an
// *Error for a section that is missing or damaged.
func (f *File) Bytes(name string) ([]byte, error) {
	e := f.table[name]
	if e == nil {
		return nil, f.damaged("there is no section %q", name)
	}
	b := f.data[e.Offset : e.Offset+e.Length : e.Offset+e.Length]
	if !f.checked[name] {
		if checksum(0, b, checksumPart) != e.CRC {
			return nil, f.damaged("section %q is damaged (checksum)", name)
		}
		f.checked[name] = true
	}
	return b, nil
}

// Check verifies the checksums of all sections.
func (f *File) Check() error {
	for _, name := range f.names {
		if _, err := f.Bytes(name); err != nil {
			return err
		}
	}
	return nil
}

// Floats returns a section of float64 numbers, read-only and valid until Close.
func (f *File) Floats(name string) ([]float64, error) {
	b, err := f.Bytes(name)
	if err != nil {
		return nil, err
	}
	if len(b)%8 != 0 {
		return nil, f.damaged("section %q does not hold numbers", name)
	}
	if littleEndian && uintptr(unsafe.Pointer(unsafe.SliceData(b)))%8 == 0 {
		return unsafe.Slice((*float64)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/8), nil
	}
	v := make([]float64, len(b)/8)
	for i := range v {
		v[i] = math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:]))
	}
	return v, nil
}

// JSON decodes a section into v.
func (f *File) JSON(name string, v any) error {
	b, err := f.Bytes(name)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return f.damaged("section %q cannot be read: %v", name, err)
	}
	return nil
}

// Close releases the file's memory.
func (f *File) Close() error {
	if f.unmap == nil {
		return nil
	}
	err := f.unmap()
	f.data, f.unmap = nil, nil
	return err
}
