package problem

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/linearize/network"
)

// withColumns returns the model that takes the rows of the data, with the columns of each input as --input-columns
// says. Several inputs without it take the columns of their names, or all columns one after another, which is said.
func (m *Model) withColumns(c *job.Job, f *ModelFlags, d *dataset.Data) (*Model, error) {
	inputs := m.Net.Inputs()
	if len(f.Columns) == 0 && len(inputs) == 1 {
		return m, nil
	}
	width := Elements(d.Shape)
	if len(f.Columns) > 0 && d.Columns == nil {
		return nil, fmt.Errorf("--input-columns: %s holds pictures, which have no columns; leave it out, or give --data with a table", d.Source)
	}
	columns := map[string][]int{}
	for _, text := range f.Columns {
		name, list, _ := strings.Cut(text, "=")
		// Find the positions of columns: names, ranges of names such as a:c, and numbers counted from 0 and ranges of
		// them such as 0-9.
		names := d.Columns
		var at []int
		for _, item := range strings.Split(list, ",") {
			from := slices.Index(names, item)
			to := from
			if a, b, ok := strings.Cut(item, ":"); from < 0 && ok {
				from, to = slices.Index(names, a), slices.Index(names, b)
			} else if a, b, ok := strings.Cut(item, "-"); from < 0 {
				if !ok {
					b = a
				}
				var wrong [2]error
				from, wrong[0] = strconv.Atoi(a)
				to, wrong[1] = strconv.Atoi(b)
				if errors.Join(wrong[:]...) != nil {
					from = -1
				}
			}
			if from < 0 || to < from || to >= len(names) {
				return nil, fmt.Errorf("--input-columns %q: %w; %s has %s", text, fmt.Errorf("there is no column or range of columns %q", item), d.Source, dataset.QuoteList(d.Columns))
			}
			for k := from; k <= to; k++ {
				at = append(at, k)
			}
		}
		columns[name] = at
	}
	if len(f.Columns) == 0 {
		var how string
		if columns, how = defaultColumns(inputs, d); columns == nil {
			return nil, fmt.Errorf("%s: an input has %d numbers, but the inputs of %s take %s; say with --input-columns NAME=COLUMNS, one for each, which columns they are%s", d.Source, width, m.Name, sizes(inputs), columnsHint(d))
		}
		parts := make([]string, len(inputs))
		for i, in := range inputs {
			list := columns[in.Name]
			text := "the next " + job.Count(len(list))
			if first, last := list[0], list[len(list)-1]; d.Columns != nil && len(list) == 1 {
				text = d.Columns[first]
			} else if d.Columns != nil {
				text = fmt.Sprintf("%s to %s", d.Columns[first], d.Columns[last])
			}
			parts[i] = fmt.Sprintf("%s from %s", in.Name, text)
		}
		c.Note("%s takes %s, %s; --input-columns NAME=COLUMNS assigns others", m.Name, strings.Join(parts, ", "), how)
	}
	net, err := m.Net.WithColumns(width, columns)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; --input-columns NAME=COLUMNS says which columns of %s each input takes: %s", m.Name, errors.New(strings.TrimPrefix(err.Error(), "network: ")), d.Source, sizes(inputs))
	}
	return m.Trained(net), nil
}

// defaultColumns returns the columns of several inputs where nothing is given, and how they were found: by their names
// if each input is one number and a column has its name, or one after another if there are just as many; nil where
// neither is so.
func defaultColumns(inputs []network.Input, d *dataset.Data) (columns map[string][]int, how string) {
	columns = map[string][]int{}
	named, at := true, 0
	for _, in := range inputs {
		k := slices.Index(d.Columns, in.Name)
		named = named && in.Len() == 1 && k >= 0
		columns[in.Name] = []int{k}
	}
	if named {
		return columns, "by the names of the columns"
	}
	for _, in := range inputs {
		list := make([]int, in.Len())
		for k := range list {
			list[k] = at + k
		}
		columns[in.Name], at = list, at+len(list)
	}
	if at != Elements(d.Shape) {
		return nil, ""
	}
	return columns, "one after another"
}

// sizes lists inputs with the numbers that they take.
func sizes(inputs []network.Input) string {
	parts := make([]string, len(inputs))
	for i, in := range inputs {
		parts[i] = fmt.Sprintf("%s %d", in.Name, in.Len())
	}
	return strings.Join(parts, ", ")
}

// wholeColumns are the columns of the rows that integer inputs take, such as token ids, which are never scaled.
func (m *Model) wholeColumns() (list []int) {
	if m.Net == nil {
		return nil
	}
	for _, in := range m.Net.Inputs() {
		if !in.Integer {
			continue
		}
		if in.Columns != nil {
			list = append(list, in.Columns...)
			continue
		}
		for k := range in.Len() {
			list = append(list, in.Offset+k)
		}
	}
	return list
}

// unscaled returns s without the scaling of some columns, nil where that leaves nothing.
func unscaled(s *dataset.Scaling, columns []int) *dataset.Scaling {
	if s == nil || len(columns) == 0 {
		return s
	}
	out := &dataset.Scaling{Mean: slices.Clone(s.Mean), Scale: slices.Clone(s.Scale)}
	for _, k := range columns {
		if k < len(out.Mean) {
			out.Mean[k], out.Scale[k] = 0, 1
		}
	}
	if !slices.ContainsFunc(out.Mean, func(v float64) bool { return v != 0 }) && !slices.ContainsFunc(out.Scale, func(v float64) bool { return v != 1 }) {
		return nil
	}
	return out
}

// TakesWhole reports whether the network takes integers, such as token ids, in some columns.
func (m *Model) TakesWhole() bool { return len(m.wholeColumns()) > 0 }

// takesWholeAlone reports whether the network takes integers in all columns, so that none can have been scaled in
// another way.
func (m *Model) takesWholeAlone() bool {
	if m.Net == nil {
		return false
	}
	d, _, _ := m.Net.Dims()
	return len(m.wholeColumns()) == d
}
