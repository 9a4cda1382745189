package npy

import (
	"encoding/binary"
	"fmt"
	"io"
	"strings"
)

// Write writes numbers, row-major in an array of this shape, as a .npy file of version 1.
func Write(w io.Writer, v []float64, shape ...int) error {
	dims := ""
	for _, n := range shape {
		dims += fmt.Sprintf("%d, ", n)
	}
	dict := fmt.Sprintf("{'descr': '<f8', 'fortran_order': False, 'shape': (%s), }", dims)
	// The data begin at a multiple of 64 bytes.
	dict += strings.Repeat(" ", 63-(len(magic)+4+len(dict))%64) + "\n"
	head := binary.LittleEndian.AppendUint16([]byte(magic+"\x01\x00"), uint16(len(dict)))
	if _, err := w.Write(append(head, dict...)); err != nil {
		return err
	}
	return binary.Write(w, binary.LittleEndian, v)
}
