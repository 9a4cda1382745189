package dataset

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
)

// mostScaling bounds the bytes of a file of means and deviations.
const mostScaling = 64 << 20

// A ScalingFile holds means and deviations as a JSON file has them: an object with
// "mean" and "sd", each a number, a list or an object by column name, or with "inputs"
// and "targets" that hold such objects. The names of scikit-learn's and PyTorch's
// attributes are understood too: "mean_", "scale_", "std".
type ScalingFile struct {
	path            string
	inputs, targets *scalingPart
}

// A scalingPart is one object with means and deviations.
type scalingPart struct{ mean, sd any }

// scalingNames are the keys of means and of deviations.
var scalingNames = [2][]string{{"mean", "mean_", "means"}, {"sd", "std", "scale", "scale_", "sds", "stds"}}

// ReadScaling reads a file of means and deviations. The error is an *Error that names
// the file and the key or, if ctx is done, its error.
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
				return nil, &Error{File: path, Place: quote(key), Problem: "is no object", Remedy: scalingRemedy}
			}
			if *part, err = s.part(object, key); err != nil {
				return nil, err
			}
			delete(top, key)
		}
		for _, key := range slices.Sorted(maps.Keys(top)) {
			return nil, &Error{File: path, Place: quote(key), Problem: "is beside inputs and targets", Remedy: scalingRemedy}
		}
		return s, nil
	}
	part, err := s.part(top, "")
	s.inputs, s.targets = part, part
	return s, err
}

const scalingRemedy = `write {"mean": [...], "sd": [...]}, or {"inputs": {...}, "targets": {...}} with such objects`

// part reads one object with means and deviations.
func (s *ScalingFile) part(object map[string]any, within string) (*scalingPart, error) {
	var found [2]any
	for _, key := range slices.Sorted(maps.Keys(object)) {
		which := slices.IndexFunc(scalingNames[:], func(names []string) bool { return slices.Contains(names, key) })
		if which < 0 {
			continue // such as scikit-learn's var_ and n_samples_seen_
		}
		if found[which] != nil {
			return nil, &Error{File: s.path, Place: quote(key), Problem: "is a second list of the same kind", Remedy: scalingRemedy}
		}
		found[which] = object[key]
	}
	if found[0] == nil && found[1] == nil {
		e := &Error{File: s.path, Problem: "holds neither means nor deviations", Remedy: scalingRemedy}
		if within != "" {
			e.Place = quote(within)
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

// numbers returns a value of the file as numbers in the order of the columns. Of
// columns that an object does not name the number is none.
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
				return nil, &Error{File: s.path, Place: what, Problem: "there is no column " + quote(name), Remedy: "choose from " + QuoteList(columns)}
			}
			x, ok := v[name].(float64)
			if !ok {
				return fail(quote(name) + " is no number")
			}
			out[j] = x
		}
		return out, nil
	}
	return fail("neither a number nor a list nor an object")
}
