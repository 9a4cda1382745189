package funcgp

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/text/unicode/norm"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/option"
)

// classNamesOf reads the names of a model's metadata: a list as SplitNames reads it, or in JSON as Python writes it.
func classNamesOf(text string) ([]string, error) {
	text = norm.NFC.String(text)
	if !strings.HasPrefix(strings.TrimSpace(text), "[") {
		return job.SplitNames(text)
	}
	var names []string
	if err := json.Unmarshal([]byte(text), &names); err != nil {
		return nil, err
	}
	return job.SplitNames(job.JoinNames(names))
}

// checkNumber refuses a class of built-in data that is no number.
func (s *asked) checkNumber(flag option.Text, class string) error {
	source := s.Data.source()
	kind, _, _ := strings.Cut(source, ":")
	if _, err := strconv.Atoi(class); err != nil && s.posterior == "" && (kind == "digits" || source == "mnist") {
		return job.Usagef("%s %q: the classes of {data=%s} are digits, such as 4,9", flag, class, source)
	}
	return nil
}

// CheckContrast refuses a contrast that can never be right, and splits it; "" has no parts.
func (s *asked) CheckContrast(text string) (a, b string, err error) {
	d := &s.Data
	if text == "" {
		return "", "", nil
	}
	ab, err := job.SplitNames(text)
	if err != nil || len(ab) != 2 {
		return "", "", job.Usagef("{contrast=%q} must be two different classes such as 4,9", text)
	}
	for _, class := range ab {
		if d.ClassNames == nil {
			if err := s.checkNumber("{contrast}", class); err != nil {
				return "", "", err
			}
		}
		if name := norm.NFC.String(class); d.Classes != nil && !slices.Contains(d.Classes, name) && !slices.Contains(d.ClassNames, name) {
			return "", "", job.Usagef("{contrast=%s}: %s is not one of {classes=%s}", text, class, job.JoinNames(d.Classes))
		}
	}
	return ab[0], ab[1], nil
}

// Contrasted returns the outputs of two classes whose difference is asked for. In a regression, plus and minus
// are numbers of outputs or names of target columns.
func (p *problem) Contrasted(plus, minus string) (a, b int, err error) {
	if a, err = p.OutputOf(plus); err != nil {
		return 0, 0, err
	}
	if b, err = p.OutputOf(minus); err == nil && a == b {
		err = option.Errorf("{contrast=%s}: both are the same output; name two", job.JoinNames([]string{plus, minus}))
	}
	return a, b, err
}

// OutputOf returns the output of a class, a label or a target, or of its number.
func (p *problem) OutputOf(name string) (int, error) {
	t, columns := p.Task, p.OutputNames()
	k, notNumber := strconv.Atoi(name)
	switch {
	case t.Classes != nil:
		if i, ok := p.ClassOf(name); ok {
			return i, nil
		}
		return 0, option.Errorf("{contrast}: %s is not one of the classes %s; choose two of them", name, t.ClassList())
	case slices.Contains(columns, name):
		return slices.Index(columns, name), nil
	case notNumber != nil || k < 0 || k >= p.Model.Outputs:
		return 0, option.Errorf("{contrast}: there is no output %s; %s has 0 to %d", name, p.Model.Name, p.Model.Outputs-1)
	}
	return k, nil
}

// ClassOf returns the number of the class with this name or label, and whether there is one.
func (p *problem) ClassOf(name string) (k int, ok bool) { return p.Task.classOf(p.Examples.Data, name) }

func (t *problemTask) classOf(d *dataset.Data, name string) (k int, ok bool) {
	if i := slices.Index(t.Names, norm.NFC.String(name)); i >= 0 {
		return i, true
	}
	label, err := strconv.Atoi(name)
	if i := slices.Index(t.Classes, label); err == nil && i >= 0 && d.Names == nil {
		return i, true
	}
	return 0, false
}

// ClassList returns a list of the classes for messages, cut short if it is long.
func (t *problemTask) ClassList() string { return job.Cut(t.list(), 60) }

// list formats the classes as the user knows them.
func (t *problemTask) list() string {
	if t.Names != nil {
		return job.JoinNames(t.Names)
	}
	return formatInts(t.Classes)
}

// Name is the name of the class of a label, "" where classes have none.
func (t *problemTask) Name(label int) string {
	if k := slices.Index(t.Classes, label); k >= 0 && k < len(t.Names) {
		return t.Names[k]
	}
	return ""
}

// ClassNames are the names of the classes in the order of the outputs, or their labels where they have no names; nil
// for a regression and several labels a row.
func (t *problemTask) ClassNames() []string {
	if t.Names != nil {
		return t.Names
	}
	var list []string
	for _, k := range t.Classes {
		list = append(list, strconv.Itoa(k))
	}
	return list
}

// labelsOf returns the labels of the data that a list of classes names.
func labelsOf(from option.Text, list []string, d *dataset.Data) ([]int, error) {
	var labels []int
	for _, class := range list {
		k, err := strconv.Atoi(class)
		if at := slices.Index(d.OneHot, class); at >= 0 {
			k = at
		} else if d.Names != nil {
			var ok bool
			if k, ok = slices.BinarySearch(d.Names, class); !ok {
				var remedy option.Text
				if !slices.ContainsFunc(d.Names, func(name string) bool { return !slices.Contains(list, name) }) {
					remedy = option.Textf("; a class that no row has is named by {class-names=%s}", job.Word(job.JoinNames(list)))
				}
				return nil, option.Errorf("%s: %s is not a class of %s, which are %s%s", from, class, d.Source, job.Cut(job.JoinNames(d.Names), 60), remedy)
			}
		} else if err != nil {
			return nil, option.Errorf("%s: the labels of %s are numbers, and %q is none; leave it out, and give {class-names=%s} for names in the order of the outputs", from, d.Source, class, job.Word(job.JoinNames(list)))
		}
		labels = append(labels, k)
	}
	return labels, nil
}

// wanted holds the classes that the options or the metadata name, by label and by name. Both are nil if no
// classes are named.
type wanted struct {
	classes []int
	names   []string
	from    option.Text // where the classes come from
}

// classText formats labels of the data.
func classText(labels []int, d *dataset.Data) string {
	if d.Names == nil {
		return formatInts(labels)
	}
	var names []string
	for _, k := range labels {
		names = append(names, d.Train.ClassName(k))
	}
	return job.JoinNames(names)
}

// NameOf is the name of the class of a label of the data, "" for none.
func (p *problem) NameOf(label result.Float) string {
	if p.Task.Classes == nil || !label.Finite() {
		return ""
	}
	return p.Task.Name(int(label))
}

// LabelName is the name of the label of row i of a subset, "" for none; of several labels it names those that the row has.
// Of a row among the others of FitOptions.Outputs it is the name of its own class.
func (p *problem) LabelName(rows *dataset.Rows, i int) string {
	if p.Task.MultiLabel() {
		return result.Labelled(p.Task.LabelNames, severalOf(rows, i))
	}
	name := p.NameOf(result.Float(label(rows, i)))
	if own := p.Task.OwnClass(rows, i); own != "" {
		return fmt.Sprintf("%s (%s)", own, name)
	}
	return name
}

// TrainingRows names the training rows in reports.
func (p *problem) TrainingRows() result.Rows {
	train := p.Examples.Train
	r := result.Rows{Index: train.Index, ID: train.IDs, Classes: p.Task.Labels(), ClassNames: p.Task.Names}
	if train.Width() == 1 {
		r.Label = labels(train)
		for i := range r.Label {
			if p.Task.Grouping != nil {
				r.LabelNames = append(r.LabelNames, p.LabelName(train, i))
			}
		}
	} else {
		r.Targets, r.Width = train.Targets, train.Width()
		for i := range train.Len() {
			if p.Task.MultiLabel() {
				r.LabelNames = append(r.LabelNames, p.LabelName(train, i))
			}
		}
	}
	return r
}

// OutputNames are the names of the outputs where there is a target column for each, or a label.
func (p *problem) OutputNames() []string {
	if p.Task.MultiLabel() {
		return p.Task.LabelNames
	}
	list := p.Examples.Data.TargetColumns
	if hasLogVariances(p.Task.Likelihood) { // targets, which may have no names, and their log noise variances
		k := p.Model.Outputs / 2
		out := make([]string, 2*k)
		for j := range k {
			name := "mean"
			if k > 1 {
				name = fmt.Sprintf("mean %d", j)
			}
			if len(list) == k {
				name = list[j]
			}
			out[j], out[k+j] = name, "log noise variance of "+name
			if name == "mean" {
				out[k+j] = "log noise variance"
			}
		}
		return out
	}
	if len(list) > 1 && len(list) == p.Model.Outputs {
		return list
	}
	return nil
}

// idOf is the name of row i of a subset, "" where rows have none.
func idOf(rows *dataset.Rows, i int) string {
	if rows.IDs == nil {
		return ""
	}
	return rows.IDs[i]
}
