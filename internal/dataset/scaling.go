package dataset

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/option"
)

// Scaling standardizes inputs or targets: x ← (x − Mean)/Scale. Mean and Scale have one number for
// all D columns, one for each channel of a picture, or one for each column: number k of K is for
// the columns from kD/K up to (k+1)D/K − 1. A nil Scaling leaves numbers unchanged.
type Scaling struct {
	Mean, Scale []float64
}

// ScalingBy returns the scaling with these means and standard deviations. Both have the same
// length, or one is a single number for all. Nil means are 0, and nil standard deviations 1. The
// error says which number is not finite or which standard deviation is not positive.
func ScalingBy(mean, sd []float64) (*Scaling, error) {
	k := max(1, len(mean), len(sd))
	of := func(v []float64, none float64) ([]float64, error) {
		switch len(v) {
		case 0:
			v = []float64{none}
			fallthrough
		case 1:
			return slices.Repeat(v, k), nil
		case k:
			return slices.Clone(v), nil
		}
		return nil, fmt.Errorf("%d means but %d deviations; give as many, or one for all", len(mean), len(sd))
	}
	s := &Scaling{}
	var err error
	if s.Mean, err = of(mean, 0); err != nil {
		return nil, err
	}
	if s.Scale, err = of(sd, 1); err != nil {
		return nil, err
	}
	for j := range k {
		if bad(s.Mean[j]) {
			return nil, fmt.Errorf("mean %d is %v; want a finite number", j, s.Mean[j])
		}
		if bad(s.Scale[j]) || s.Scale[j] <= 0 {
			return nil, fmt.Errorf("deviation %d is %v; want a positive number", j, s.Scale[j])
		}
	}
	return s, nil
}

// Identity reports whether the scaling changes nothing.
func (s *Scaling) Identity() bool {
	return !slices.ContainsFunc(s.Mean, func(v float64) bool { return v != 0 }) && !slices.ContainsFunc(s.Scale, func(v float64) bool { return v != 1 })
}

// Fits returns an error unless the scaling can be applied to inputs of this shape: it must have one
// number for all, one for each channel of a picture, or one for each column.
func (s *Scaling) Fits(shape []int) error {
	d := 1
	for _, n := range shape {
		d *= n
	}
	k := len(s.Mean)
	switch {
	case k == 1 || k == d || len(shape) > 1 && k == shape[0]:
		return nil
	case len(shape) > 1:
		return fmt.Errorf("%d means and deviations, but a picture has %d channels; give one number, or one a channel", k, shape[0])
	}
	return fmt.Errorf("%d means and deviations, but the data have %d columns of features; give one number, or one a column", k, d)
}

// NewScaling returns the mean and the population standard deviation of every
// column of x, the training inputs (N×D). A constant column has scale 1. The error names a column
// whose standard deviation overflows.
func NewScaling(x *mat.Dense) (*Scaling, error) {
	n, d := x.Dims()
	return scalingOf(d, false, 1, float64(n), "feature", "rescale the column", func(do func(x *mat.Dense)) error {
		do(x)
		return nil
	})
}

// Scaling returns the scaling that standardizes the inputs of these rows: each column of features, or each channel of
// pictures over all its pixels. A constant column or channel has scale 1. The rows of others count as well. Scaling
// holds few rows in memory at a time. The error is an error of NewScaling or Rows.Read.
func (s *Rows) Scaling(ctx context.Context, others ...*Rows) (*Scaling, error) {
	each := func(do func(x *mat.Dense)) error { return s.each(ctx, others, do) }
	n := s.lenWith(others)
	if !s.Images() {
		return scalingOf(s.Dim(), false, 1, float64(n), "feature", "rescale the column", each)
	}
	channels := s.Shape[0]
	if s.last {
		channels, _, _ = s.Picture()
	}
	return scalingOf(channels, s.last, float64(n*(s.Dim()/channels)), 1, "channel", "rescale the pictures", each)
}

// each calls do with these rows and those of others, a few at a time.
func (s *Rows) each(ctx context.Context, others []*Rows, do func(x *mat.Dense)) error {
	for _, s := range append([]*Rows{s}, others...) {
		const tile = 256
		for lo := 0; lo < s.Len(); lo += tile {
			x, err := s.Slice(lo, min(lo+tile, s.Len())).Read(ctx)
			if err != nil {
				return err
			}
			do(x)
		}
	}
	return nil
}

// lenWith returns the number of these rows and those of others.
func (s *Rows) lenWith(others []*Rows) int {
	n := s.Len()
	for _, o := range others {
		n += o.Len()
	}
	return n
}

// PerChannel expands a scaling with one number for each channel to one for each column, for images whose channels
// come last. It returns other scalings, and nil, unchanged.
func (s *Rows) PerChannel(by *Scaling) *Scaling {
	if by == nil || !s.last {
		return by
	}
	if c, h, w := s.Picture(); c > 1 && len(by.Mean) == c {
		return &Scaling{Mean: slices.Repeat(by.Mean, h*w), Scale: slices.Repeat(by.Scale, h*w)}
	}
	return by
}

// bad reports whether v is NaN or infinite.
func bad(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) }

// scalingOf returns the mean and the standard deviation of k columns or channels, in two passes over the rows that
// each yields. The columns of a channel are consecutive, or with last the channels alternate. A constant channel is
// found by comparing values, since the rounded mean would give it a tiny standard deviation. Each number is divided
// by one before it is added, and the sum is divided by all. The error names a column or channel whose standard
// deviation is too large.
func scalingOf(k int, last bool, one, all float64, kind string, remedy option.Text, each func(do func(x *mat.Dense)) error) (*Scaling, error) {
	s := &Scaling{Mean: make([]float64, k), Scale: make([]float64, k)}
	value, constant := make([]float64, k), slices.Repeat([]bool{true}, k)
	numbers := func(do func(c int, v float64)) error {
		return each(func(x *mat.Dense) {
			rows, d := x.Dims()
			for i := range rows {
				for j, v := range x.RawRowView(i) {
					if c := j * k / d; !last {
						do(c, v)
					} else {
						do(j%k, v)
					}
				}
			}
		})
	}
	for c := range value {
		value[c] = math.NaN() // until the first number
	}
	if err := numbers(func(c int, v float64) {
		if math.IsNaN(value[c]) {
			value[c] = v
		}
		s.Mean[c] += v / one
		constant[c] = constant[c] && v == value[c]
	}); err != nil {
		return nil, err
	}
	for c := range k {
		if s.Mean[c] /= all; constant[c] {
			s.Mean[c] = value[c]
		}
	}
	if err := numbers(func(c int, v float64) { s.Scale[c] += (v - s.Mean[c]) * (v - s.Mean[c]) / one }); err != nil {
		return nil, err
	}
	for c := range k {
		s.Scale[c] = math.Sqrt(s.Scale[c] / all)
		if constant[c] || s.Scale[c] == 0 { // the squares underflow
			s.Scale[c] = 1
		}
		if bad(s.Mean[c]) || bad(s.Scale[c]) {
			return nil, &Error{Place: fmt.Sprintf("%s %d", kind, c), Problem: "its spread is too large to standardize", Remedy: remedy}
		}
	}
	return s, nil
}

// Apply standardizes the rows of x in place. It panics if the number of columns is
// no multiple of the number of means.
func (s *Scaling) Apply(x *mat.Dense) {
	if s == nil {
		return
	}
	n, d := x.Dims()
	k := len(s.Mean)
	if d%k != 0 {
		panic("dataset: dimension mismatch")
	}
	for i := range n {
		row := x.RawRowView(i)
		for j, v := range row {
			c := j * k / d
			row[j] = (v - s.Mean[c]) / s.Scale[c]
		}
	}
}

// String writes the scaling as "m,m,...;s,s,...", from which ParseScaling
// gets the same numbers to the last bit. A nil scaling is "".
func (s *Scaling) String() string {
	if s == nil {
		return ""
	}
	return joinFloats(s.Mean) + ";" + joinFloats(s.Scale)
}

func joinFloats(v []float64) string {
	out := make([]string, len(v))
	for i, x := range v {
		out[i] = strconv.FormatFloat(x, 'g', -1, 64)
	}
	return strings.Join(out, ",")
}

// ParseScaling reads what String wrote. The empty string is a nil Scaling.
func ParseScaling(text string) (*Scaling, error) {
	if text == "" {
		return nil, nil
	}
	m, sd, ok := strings.Cut(text, ";")
	if !ok {
		return nil, errors.New("dataset: scaling has no \";\" between means and scales")
	}
	mean, err := splitFloats(m)
	if err != nil {
		return nil, err
	}
	scale, err := splitFloats(sd)
	if err != nil {
		return nil, err
	}
	if len(mean) != len(scale) {
		return nil, fmt.Errorf("dataset: scaling has %d means but %d scales", len(mean), len(scale))
	}
	s, err := ScalingBy(mean, scale)
	if err != nil {
		return nil, fmt.Errorf("dataset: scaling: %w", err)
	}
	return s, nil
}

func splitFloats(text string) ([]float64, error) {
	fields := strings.Split(text, ",")
	out := make([]float64, len(fields))
	for i, f := range fields {
		v, err := strconv.ParseFloat(f, 64)
		if err != nil || bad(v) {
			return nil, fmt.Errorf("dataset: scaling holds %s, want a finite number", option.Quote(f))
		}
		out[i] = v
	}
	return out, nil
}

// mostScaling bounds the bytes of a file of means and standard deviations.
const mostScaling = 64 << 20

// A ScalingFile holds the means and standard deviations of a JSON file, which is an object with
// "mean" and "sd", each a number, a list or an object by column name, or with "inputs" and
// "targets" that hold such objects. The names of scikit-learn's and PyTorch's attributes are
// understood too: "mean_", "scale_", "std".
type ScalingFile struct {
	path            string
	inputs, targets *scalingPart
}

// A scalingPart is one object with means and standard deviations.
type scalingPart struct{ mean, sd any }

// scalingNames holds the keys of means and of standard deviations.
var scalingNames = [2][]string{{"mean", "mean_", "means"}, {"sd", "std", "scale", "scale_", "sds", "stds"}}

// ReadScaling reads a file of means and standard deviations. The error is an *Error that names the
// file and the key or, if ctx is done, its error.
func ReadScaling(ctx context.Context, path string) (*ScalingFile, error) {
	f, err := openFile(ctx, path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, mostScaling+1))
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, &Error{File: path, Problem: "cannot be read", Err: err}
	}
	if len(text) > mostScaling {
		return nil, &Error{File: path, Problem: "is too large for means and deviations", Remedy: scalingRemedy}
	}
	var top map[string]any
	if err := json.Unmarshal(text, &top); err != nil {
		return nil, &Error{File: path, Problem: "is no JSON object", Err: err, Remedy: scalingRemedy}
	}
	s := &ScalingFile{path: path}
	_, nested := top["inputs"]
	if _, ok := top["targets"]; ok || nested {
		for key, part := range map[string]**scalingPart{"inputs": &s.inputs, "targets": &s.targets} {
			v, ok := top[key]
			if !ok {
				continue
			}
			object, ok := v.(map[string]any)
			if !ok {
				return nil, &Error{File: path, Place: option.Quote(key), Problem: "is no object", Remedy: scalingRemedy}
			}
			if *part, err = s.part(object, key); err != nil {
				return nil, err
			}
			delete(top, key)
		}
		for _, key := range slices.Sorted(maps.Keys(top)) {
			return nil, &Error{File: path, Place: option.Quote(key), Problem: "is beside inputs and targets", Remedy: scalingRemedy}
		}
		return s, nil
	}
	part, err := s.part(top, "")
	s.inputs, s.targets = part, part
	return s, err
}

var scalingRemedy = option.Plain(`write {"mean": [...], "sd": [...]}, or {"inputs": {...}, "targets": {...}} with such objects`)

// part reads one object with means and standard deviations.
func (s *ScalingFile) part(object map[string]any, within string) (*scalingPart, error) {
	var found [2]any
	for _, key := range slices.Sorted(maps.Keys(object)) {
		which := slices.IndexFunc(scalingNames[:], func(names []string) bool { return slices.Contains(names, key) })
		if which < 0 {
			continue // other attributes, such as scikit-learn's var_ and n_samples_seen_
		}
		if found[which] != nil {
			return nil, &Error{File: s.path, Place: option.Quote(key), Problem: "is a second list of the same kind", Remedy: scalingRemedy}
		}
		found[which] = object[key]
	}
	if found[0] == nil && found[1] == nil {
		e := &Error{File: s.path, Problem: "holds neither means nor deviations", Remedy: scalingRemedy}
		if within != "" {
			e.Place = option.Quote(within)
		}
		return nil, e
	}
	return &scalingPart{found[0], found[1]}, nil
}

// Inputs returns the scaling of inputs with these columns, nil for pictures; ok is
// false if the file has none.
func (s *ScalingFile) Inputs(columns []string) (scaling *Scaling, ok bool, err error) {
	return s.scaling(s.inputs, columns)
}

// Targets returns the scaling of targets with these names; ok is false if the
// file has none.
func (s *ScalingFile) Targets(names []string) (scaling *Scaling, ok bool, err error) {
	return s.scaling(s.targets, names)
}

func (s *ScalingFile) scaling(part *scalingPart, columns []string) (*Scaling, bool, error) {
	if part == nil {
		return nil, false, nil
	}
	mean, err := s.numbers(part.mean, "means", columns, 0)
	if err != nil {
		return nil, true, err
	}
	sd, err := s.numbers(part.sd, "deviations", columns, 1)
	if err != nil {
		return nil, true, err
	}
	out, err := ScalingBy(mean, sd)
	if err != nil {
		return nil, true, &Error{File: s.path, Problem: err.Error()}
	}
	return out, true, nil
}

// numbers returns a value of the file as numbers in the order of the columns. Columns that an
// object does not name get the number none.
func (s *ScalingFile) numbers(v any, what string, columns []string, none float64) ([]float64, error) {
	fail := func(problem string) ([]float64, error) {
		return nil, &Error{File: s.path, Place: what, Problem: problem, Remedy: scalingRemedy}
	}
	switch v := v.(type) {
	case nil:
		return nil, nil
	case float64:
		return []float64{v}, nil
	case []any:
		out := make([]float64, len(v))
		for i, e := range v {
			x, ok := e.(float64)
			if !ok {
				return fail(fmt.Sprintf("element %d is no number", i))
			}
			out[i] = x
		}
		if len(out) == 0 {
			return fail("the list is empty")
		}
		return out, nil
	case map[string]any:
		out := slices.Repeat([]float64{none}, len(columns))
		for _, name := range slices.Sorted(maps.Keys(v)) {
			j := slices.Index(columns, name)
			if j < 0 && columns == nil {
				return fail("names of columns, but pictures have none")
			}
			if j < 0 {
				return nil, &Error{File: s.path, Place: what, Problem: "there is no column " + option.Quote(name), Remedy: option.Textf("choose from %s", option.QuoteList(columns))}
			}
			x, ok := v[name].(float64)
			if !ok {
				return fail(option.Quote(name) + " is no number")
			}
			out[j] = x
		}
		return out, nil
	}
	return fail("neither a number nor a list nor an object")
}
