package npy

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"strings"
)

// Write writes numbers, row-major in an array of this shape, as a .npy file of version 1.
func Write(w io.Writer, v []float64, shape ...int) error {
	if err := writeHead(w, "'<f8'", shape); err != nil {
		return err
	}
	return binary.Write(w, binary.LittleEndian, v)
}

// writeHead writes the header of an array.
func writeHead(w io.Writer, descr string, shape []int) error {
	dict := fmt.Sprintf("{'descr': %s, 'fortran_order': False, 'shape': %s, }", descr, tuple(shape))
	// The data begin at a multiple of 64 bytes.
	dict += strings.Repeat(" ", 63-(len(magic)+4+len(dict))%64) + "\n"
	head := binary.LittleEndian.AppendUint16([]byte(magic+"\x01\x00"), uint16(len(dict)))
	_, err := w.Write(append(head, dict...))
	return err
}

// tuple writes a shape as Python does.
func tuple(shape []int) string {
	dims := ""
	for _, n := range shape {
		dims += fmt.Sprintf("%d, ", n)
	}
	return "(" + dims + ")"
}

// A Field is a column of a table.
type Field struct {
	Name   string    // must not contain quotes
	Shape  []int     // shape of the values of one row; empty for a single number
	Values []float64 // values of all rows, row-major
	Fields []Field   // nested columns, in place of Values; nil for none
}

// WriteTable writes n rows of named fields as a structured array in a .npy file of version 1.
func WriteTable(w io.Writer, n int, fields []Field) error {
	var columns []Field // the columns that hold numbers
	var describe func(fields []Field) string
	describe = func(fields []Field) string {
		var list []string
		for _, f := range fields {
			descr := "'<f8', " + tuple(f.Shape)
			if f.Fields != nil {
				descr = describe(f.Fields)
			} else {
				columns = append(columns, f)
			}
			list = append(list, fmt.Sprintf("('%s', %s)", f.Name, descr))
		}
		return "[" + strings.Join(list, ", ") + "]"
	}
	if err := writeHead(w, describe(fields), []int{n}); err != nil {
		return err
	}
	var rows []byte
	for i := range n {
		for _, f := range columns {
			width := len(f.Values) / n
			for _, v := range f.Values[i*width : (i+1)*width] {
				rows = binary.LittleEndian.AppendUint64(rows, math.Float64bits(v))
			}
		}
	}
	_, err := w.Write(rows)
	return err
}
