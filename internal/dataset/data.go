package dataset

import (
	"fmt"
	"os"
	"slices"
)

// Data is a data set of up to three parts, whose inputs have the same shape. A part that the data
// lack has no rows; it is never nil.
type Data struct {
	Name               string // "digits", "mnist", or the name of the directory or file
	Source             string // where the data come from, for messages
	Train, Valid, Test *Rows
	Shape              []int    // of one input: [1 28 28] for images, [D] for features
	Columns            []string // names of the features; nil for images
	AllColumns         []string // names of the features including those left out as spare; nil if none was left out
	Target             string   // name of the target column, several joined by commas; "" for images
	TargetColumns      []string // names of the target columns; nil for images
	LastTarget         bool     // the target is the last column of a CSV file because no option names it
	ID                 string   // name of the column or array that names the rows; "" for none
	Weights            string   // name of the column of weights of the training rows; "" for none
	IntegerLabels      bool     // every target of every part is an integer or a word
	Inside             bool     // the training rows come from the file of a posterior, and there are no other rows
	Notes              []string // how the files were interpreted
	OneHot             []string // for one-hot targets the names of their columns, whose positions are the labels; else nil
	Names              []string // the words of the labels 0, 1, …; nil if labels are integers

	whole bool // see TakeWhole
	last  bool // see ChannelsLast
	kinds int  // for one-hot targets the number of their columns; else 0
}

// HeaderColumns returns the names of the features in the file, including those that were left out.
func (d *Data) HeaderColumns() []string {
	if d.AllColumns != nil {
		return d.AllColumns
	}
	return d.Columns
}

// Images reports whether the inputs are images, which are not standardized.
func (d *Data) Images() bool { return d.Columns == nil }

// Classes returns the labels that occur in any part, ascending, or nil if the
// targets are real numbers. If targets are words, the labels are all positions in Names, even those
// that occur in no row.
func (d *Data) Classes() []int {
	if !d.IntegerLabels {
		return nil
	}
	return slices.Clone(d.Train.known)
}

// CountClasses sets the classes to 0 to n−1 if all labels are in this range and some of them occur
// in no row. It reports whether it did so. Call it before rows are selected.
func (d *Data) CountClasses(n int) bool {
	known := d.Classes()
	if len(known) == 0 || len(known) >= n || d.Names != nil || known[0] < 0 || known[len(known)-1] >= n {
		return false
	}
	all := make([]int, n)
	for k := range all {
		all[k] = k
	}
	for _, s := range d.parts() {
		s.known = all
	}
	return true
}

// TakeWhole makes the inputs the grey levels of pictures themselves, whole numbers from 0 to 255, for a network that
// takes integers. Otherwise they are divided by 255.
func (d *Data) TakeWhole() {
	d.whole = true
	for _, s := range d.parts() {
		if s.whole = true; s.far != nil {
			s.far.whole = true
		}
	}
	for i, note := range d.Notes {
		if note == dividedNote {
			d.Notes[i] = "pictures of the type uint8 go in as they are, since the network takes whole numbers"
		}
	}
}

// ChannelsLast declares that pictures have the shape H×W×C and not C×H×W.
func (d *Data) ChannelsLast() {
	d.last = true
	for _, s := range d.parts() {
		s.last = true
	}
}

// Picture returns the height and the width of pictures, and their pixels with the channels one after another.
func (d *Data) Picture(pixels []byte) (h, w int, planes []byte) {
	s := &Rows{Shape: d.Shape, inputs: &inputs{last: d.last}}
	_, h, w = s.Picture()
	return h, w, s.Planes(pixels)
}

const dividedNote = "pictures of the type uint8 are grey levels, which are divided by 255"

// AddClasses adds labels to the classes that no row needs to have. Call it before rows are selected.
func (d *Data) AddClasses(labels []int) {
	all := distinct(d.Train.known, labels)
	for _, s := range d.parts() {
		s.known = all
	}
}

// SeveralLabels reports whether a row may have any number of labels: all targets are 0 or 1, and some row does not
// have exactly one 1. It returns the number in the file of the first such row.
func (d *Data) SeveralLabels() (row int, ok bool) {
	row = -1
	for _, s := range d.parts() {
		width := s.Width()
		if s.Labels != nil || width == 1 {
			return 0, false
		}
		for i := 0; i < s.n && width > 1; i++ {
			sum := 0.0
			for _, v := range s.Targets[i*width : (i+1)*width] {
				if v != 0 && v != 1 {
					return 0, false
				}
				sum += v
			}
			if row < 0 && sum != 1 {
				row = s.Row(i)
			}
		}
	}
	return row, row >= 0
}

// GreyLevels reports whether inputs are pictures of grey levels from 0 to 255.
func (d *Data) GreyLevels() bool { return d.Images() && d.hasPixels() }

// hasPixels reports whether the inputs of some part are pixels.
func (d *Data) hasPixels() bool {
	return d.Train.bytes() || d.Valid.bytes() || d.Test.bytes()
}

// bytes reports whether the inputs are pixels.
func (s *inputs) bytes() bool { return s.px != nil || s.draw != nil || s.far != nil && s.far.grey }

// Close closes the files whose inputs are read by range. Later reads open them again.
func (d *Data) Close() error {
	var first error
	for _, s := range d.parts() {
		if s.far == nil {
			continue
		}
		if err := s.far.pool.Close(); first == nil {
			first = err
		}
	}
	return first
}

func (d *Data) parts() [3]*Rows { return [3]*Rows{d.Train, d.Valid, d.Test} }

// finish checks that the inputs of all parts have the same shape, and fills in this shape and the
// labels of all parts.
func (d *Data) finish() (*Data, error) {
	if d.Train.Len() > 0 && d.Test.Len() > 0 && !slices.Equal(d.Train.Shape, d.Test.Shape) {
		return nil, &Error{
			File:    d.Source,
			Problem: fmt.Sprintf("training inputs have shape %v, test inputs %v", d.Train.Shape, d.Test.Shape),
			Remedy:  "take both files from the same source",
		}
	}
	for _, s := range d.parts() {
		if s.Len() > 0 {
			d.Shape = s.Shape
		}
	}
	known := distinct(d.Train.Labels, d.Valid.Labels, d.Test.Labels)
	if d.kinds > 0 {
		known = nil
	}
	for k := range d.kinds {
		known = append(known, k)
	}
	if d.Names != nil {
		known = make([]int, len(d.Names))
		for k := range known {
			known[k] = k
		}
	}
	for _, s := range d.parts() {
		s.known, s.Names, s.Shape, s.Columns, s.whole, s.last = known, d.Names, d.Shape, d.Columns, d.whole, d.last
	}
	return d, nil
}

// Files returns the paths of the files that the rows and labels of all parts were
// read from, each once. Generated data and data read from a pipe have none.
func (d *Data) Files() []string {
	var list []string
	for _, s := range d.parts() {
		files := s.files
		if files == nil {
			files = []string{s.File}
		}
		for _, path := range append(slices.Clone(files), s.labelFile) {
			if path == "" || slices.Contains(list, path) {
				continue
			}
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
				list = append(list, path)
			}
		}
	}
	return list
}
