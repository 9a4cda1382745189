package funcgp

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/option"
	"github.com/funcgp/funcgp/linearize/network"
)

// withColumns returns the model for the rows of the data, with the columns of each input chosen by
// Model.InputColumns. A model of several inputs without that option takes the columns with the inputs' names, or
// all columns in order, and a message says which.
func (m *trainedModel) withColumns(c *job.Job, f *Model, d *dataset.Data) (*trainedModel, error) {
	inputs := m.Net.Inputs()
	if len(f.InputColumns) == 0 && len(inputs) == 1 {
		return m, nil
	}
	width := elements(d.Shape)
	if len(f.InputColumns) > 0 && d.Columns == nil {
		return nil, option.Errorf("{input-columns}: %s holds pictures, which have no columns; leave it out, or give {data} with a table", d.Source)
	}
	columns := map[string][]int{}
	for _, name := range slices.Sorted(maps.Keys(f.InputColumns)) {
		at, wrong := columnsOf(f.InputColumns[name], d.HeaderColumns())
		for _, k := range at {
			if k = slices.Index(d.Columns, d.HeaderColumns()[k]); k >= 0 { // others are left out, since this input has no influence
				columns[name] = append(columns[name], k)
			}
		}
		if wrong != "" {
			return nil, option.Errorf("{input-columns=%q}: there is no column or range of columns %q; %s has %s", name+"="+f.InputColumns[name], wrong, d.Source, option.QuoteList(d.Columns))
		}
	}
	if len(f.InputColumns) == 0 {
		var how string
		if columns, how = defaultColumns(inputs, d); columns == nil {
			return nil, option.Errorf("%s: an input has %d numbers, but the inputs of %s take %s; say with {input-columns} NAME=COLUMNS, one for each, which columns they are%s", d.Source, width, m.Name, sizes(inputs), columnsHint(d))
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
		c.Note("%s takes %s, %s; {input-columns} NAME=COLUMNS assigns others", m.Name, strings.Join(parts, ", "), how)
	}
	net, err := m.Net.WithColumns(width, columns)
	if err != nil {
		return nil, option.Errorf("%s: %w; {input-columns} NAME=COLUMNS says which columns of %s each input takes: %s", m.Name, option.Trimmed(err, "network: "), d.Source, sizes(inputs))
	}
	return m.Trained(net), nil
}

// columnsOf returns the positions, among the named columns, of the columns that Model.InputColumns lists for an
// input: names, ranges of names such as a:c, numbers counted from 0, and ranges of numbers such as 0-9. wrong
// is the first entry that is none of these, or "".
func columnsOf(text string, names []string) (at []int, wrong string) {
	for _, item := range strings.Split(text, ",") {
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
			return nil, item
		}
		for k := from; k <= to; k++ {
			at = append(at, k)
		}
	}
	return at, ""
}

// columnsFlag returns the Model.InputColumns option that gives one input the columns names among all columns.
func columnsFlag(input string, names, all []string) option.Text {
	list := make([]string, len(names))
	for i, name := range names {
		if list[i] = name; name == "" || strings.ContainsAny(name, ",:-") {
			list[i] = strconv.Itoa(slices.Index(all, name))
		}
	}
	return option.Set("input-columns", job.Word(input+"="+strings.Join(list, ",")))
}

// explainField adds a remedy to the error of a field that is not a number: the options that declare what its
// column seems to be, the target or a column that no input takes. defaulted tells that the last column was
// taken for the target because no option named one.
func (m *trainedModel) explainField(f *Model, defaulted bool, err error) error {
	e := (*dataset.Error)(nil)
	if m.Net == nil || !errors.As(err, &e) || e.Field == nil {
		return err
	}
	at, inputs := e.Field, m.Net.Inputs()
	if len(inputs) != 1 || len(f.InputColumns) > 0 || len(at.Features) > mostTyped {
		return err
	}
	var names []string
	for k, name := range at.Features {
		if at.Numbers[k] {
			names = append(names, name)
		}
	}
	if slices.Contains(names, at.Column) { // a number is missing in a column that holds numbers
		return err
	}
	d, alone := inputs[0].Len(), len(names) == len(at.Features)-1
	switch {
	case defaulted && at.Number && at.Word && alone && len(names)+1 == d:
		e.Remedy = option.Textf("give {target=%s} if it is the label: the target is now %s, the last column", job.Word(at.Column), at.Targets[0])
	case len(names) == d && at.Word && alone:
		e.Remedy = option.Textf("give {id=%s} if it names the rows, or %s, which leaves it out", job.Word(at.Column), columnsFlag(inputs[0].Name, names, at.Features))
	case len(names) == d:
		e.Remedy = option.Textf("give %s, which leaves out what is no number", columnsFlag(inputs[0].Name, names, at.Features))
	case len(names) > d:
		e.Remedy = option.Textf("say with {input-columns=%s=COLUMNS} which %d of them the network takes: %s", inputs[0].Name, d, option.QuoteList(names))
	}
	return err
}

// indexHint advises declaring a column that counts the rows as their ID, where the data have one column more
// than the network takes.
func (m *trainedModel) indexHint(d *dataset.Data) option.Text {
	want, _, _ := m.Net.Dims()
	if len(d.Columns) != want+1 || d.Train.ByRange() || d.Train.Len() < 2 || len(m.Net.Inputs()) != 1 {
		return ""
	}
	x := d.Train.Matrix()
	for j, name := range d.Columns {
		counts := true
		for i := range d.Train.Len() {
			counts = counts && x.At(i, j) == x.At(0, j)+float64(i)
		}
		if counts && name != "" {
			return option.Textf("{id=%s}, which counts the rows, or ", job.Word(name))
		}
		if counts && len(d.Columns) <= mostTyped {
			return columnsFlag(m.Net.Inputs()[0].Name, slices.Delete(slices.Clone(d.Columns), j, j+1), d.Columns) + ", since an unnamed column counts the rows, or "
		}
	}
	return ""
}

// mostTyped is the largest number of columns that a message names one by one.
const mostTyped = 40

// spare tells, for each feature column, whether no input of the model takes it. It is nil if every column is
// taken or the columns of the inputs are not known.
func (m *trainedModel) spare(f *Model, columns []string) []bool {
	if m.Net == nil {
		return nil
	}
	taken := make([]bool, len(columns))
	for _, in := range m.Net.Inputs() {
		at := []int{slices.Index(columns, in.Name)}
		if text, ok := f.InputColumns[in.Name]; ok {
			at, _ = columnsOf(text, columns)
		}
		for _, k := range at {
			if k < 0 || len(f.InputColumns) == 0 && (in.Len() != 1 || len(m.Net.Inputs()) == 1) {
				return nil // columns one after another
			}
			taken[k] = true
		}
	}
	if !slices.Contains(taken, false) {
		return nil
	}
	for k := range taken {
		taken[k] = !taken[k]
	}
	return taken
}

// spareColumns tells, for each column of the rows, whether no input takes it. It is nil if every column is
// taken.
func (m *trainedModel) spareColumns() []bool {
	d, _, _ := m.Net.Dims()
	spare := slices.Repeat([]bool{true}, d)
	for _, in := range m.Net.Inputs() {
		for _, k := range in.Columns {
			spare[k] = false
		}
		if in.Columns == nil {
			return nil
		}
	}
	if !slices.Contains(spare, true) {
		return nil
	}
	return spare
}

// defaultColumns returns the columns of several inputs where no option gives them, and how they were found.
// Columns are matched to inputs by name if each input is one number and a column has its name; otherwise the
// inputs take the columns in order if the numbers of columns agree. columns is nil if neither rule applies.
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
	if at != elements(d.Shape) {
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
func (m *trainedModel) wholeColumns() (list []int) {
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

// unscaled returns the scaling s with some columns left unscaled, or nil if no scaled column remains.
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
	if out.Identity() {
		return nil
	}
	return out
}

// TakesWhole reports whether the network takes integers, such as token ids, in some columns.
func (m *trainedModel) TakesWhole() bool { return len(m.wholeColumns()) > 0 }

// takesWholeAlone reports whether the network takes integers in all columns, so that none can have been scaled in
// another way.
func (m *trainedModel) takesWholeAlone() bool {
	if m.Net == nil {
		return false
	}
	d, _, _ := m.Net.Dims()
	return len(m.wholeColumns()) == d
}
