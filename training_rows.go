package funcgp

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/funcgp/funcgp/glm/predictive"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/option"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
)

// chooseRows picks the training rows of the data by the saved posterior where there is one, else by the flags, else by
// what the model records if it was trained on these data; else it takes all.
func chooseRows(ctx context.Context, c *job.Job, f *asked, m *trainedModel, t *problemTask, d *dataset.Data, saved *savedFile) (*dataset.Rows, error) {
	if saved != nil {
		// Whether they are those that the posterior was fitted on is checked when it is loaded.
		rows, ok := job.ParseRows(saved.Header.Rows, d.Train.Len())
		if ok {
			if train, err := d.Train.Pick(t.Classes, rows, ""); err == nil {
				return train, saved.agreeRows(ctx, &f.Data, t, d, train)
			}
		}
		return nil, option.Errorf("%s: its posterior is of other training rows than those of %s; give {data} that it was fitted on, or fit it again by {fit with-inputs}", saved.path, d.Source)
	}
	var rows []int
	var from option.Text
	var err error
	recorded := false
	switch {
	case f.Data.TrainFile != "":
		if rows, err = dataset.ReadRows(ctx, f.Data.TrainFile); err != nil {
			return nil, err
		}
		from = option.Plain(f.Data.TrainFile)
	case f.Data.TrainCount == 0 && m.Meta.Rows != "":
		if m.Meta.Data != fingerprint(d.Train) {
			c.Warn(job.NewWarning("other-data", math.NaN(), math.NaN(), "Choose rows by {train-count} or {train-index}.",
				"%s was trained on other data than %s. The training rows it records are not used.", m.Name, d.Source))
			break
		}
		if rows, recorded = job.ParseRows(m.Meta.Rows, d.Train.Len()); !recorded {
			return nil, option.Errorf("%s: its metadata entry %s cannot be used; give {train-count} or {train-index}", m.Name, keyRows)
		}
		from = option.Plain(m.Name)
	}
	var train *dataset.Rows
	if rows != nil {
		train, err = d.Train.Pick(t.Classes, rows, from)
	} else {
		train, err = d.Train.Select(t.Classes, f.Data.TrainCount)
	}
	if e := (*dataset.Error)(nil); recorded && errors.As(err, &e) {
		e.Remedy = "the model records it as a training row; give {train-count} or {train-index} for others"
	}
	if err != nil || t.Classes == nil || train.Class == nil || slices.ContainsFunc(train.Class, func(k int) bool { return k != train.Class[0] }) {
		return train, err
	}
	return nil, t.oneClass(option.Textf("%s has", d.Source), train.Class[0])
}

// oneClass returns the error that all training rows are of one class. before begins the message and names the
// cause.
func (t *problemTask) oneClass(before option.Text, k int) error {
	return job.FullErrorf("%s training rows of class %s alone, and the %s likelihood needs two classes to tell apart; take some of another", before, t.ClassNames()[k], t.Likelihood.Name())
}

// mostLeftOut is the largest share of the rows of a part whose labels may be no class.
const mostLeftOut = .01

// leftOutKnown tells whether rows of other labels are left out on purpose. That is so with Classes, also of
// the fit whose posterior is saved, and for pictures, whose labels are numbers of a known set. It is also so
// for a model that an older version trained without recording what it left out, on these data or on data whose
// labels are numbers.
func leftOutKnown(f *Data, m *trainedModel, d *dataset.Data, saved *savedFile) bool {
	return f.Classes != nil || m.Path == "" || d.Images() && d.Names == nil && m.Meta.Classes != nil ||
		saved != nil && (saved.Header.Flags == nil || saved.Header.Flags["classes"] != "") ||
		m.Meta.others == nil && m.Meta.Data != "" && (d.Names == nil || m.Meta.Data == fingerprint(d.Train))
}

// checkLeftOut warns of rows whose labels are none of the classes, and refuses more of them than mostLeftOut of a
// part, or training rows that lack a class beside them: a label may name a class in another spelling. The labels that
// the training of the model left out do not count.
func checkLeftOut(c *job.Job, m *trainedModel, d *dataset.Data, classes []int, parts ...*dataset.Rows) error {
	for _, part := range parts {
		count := map[int]int{}
		for _, label := range part.Labels {
			count[label]++
		}
		var unknown []string
		left, rows, empty := 0, 0, ""
		for _, label := range slices.Sorted(maps.Keys(count)) {
			switch n := count[label]; {
			case slices.Contains(classes, label):
				rows += n
			case !slices.Contains(m.Meta.others, part.ClassName(label)):
				unknown, left, rows = append(unknown, part.ClassName(label)), left+n, rows+n
			}
		}
		if left == 0 {
			continue
		}
		for _, label := range classes {
			if part == d.Train && count[label] == 0 && empty == "" {
				empty = ", and no row is of class " + part.ClassName(label)
			}
		}
		text := fmt.Sprintf("%s of the %s %s rows are of no class that %s tells apart (%s): their labels are %s%s",
			job.Count(left), job.Count(rows), part.Part, m.Name, job.Cut(classText(classes, d), 60), option.QuoteList(unknown), empty)
		if empty != "" || float64(left) > mostLeftOut*float64(rows) {
			return option.Errorf("%s: %s; correct the labels, or give {classes}, which leaves other rows out", part.File, text)
		}
		c.Warn(job.NewWarning("unknown-labels", float64(left), mostLeftOut*float64(rows), "Correct the labels, or give {classes}, which leaves other rows out.",
			"%s: %s. They are left out.", part.File, text))
	}
	return nil
}

// mostInput is a size of inputs beyond which what goes wrong is blamed on the input: products of its kind overflow.
const mostInput = 1e30

// tooLarge names an input of row i that is so large that computing with it overflows, or returns "".
func tooLarge(rows *dataset.Rows, i int) string {
	x, err := rows.Slice(i, i+1).Read(context.Background())
	if err != nil {
		return ""
	}
	row := x.RawRowView(0)
	most := 0
	for j, v := range row {
		if math.Abs(v) > math.Abs(row[most]) {
			most = j
		}
	}
	if math.Abs(row[most]) < mostInput {
		return ""
	}
	name := fmt.Sprintf("feature %d", most)
	if len(rows.Columns) == len(row) {
		name = rows.Columns[most]
	}
	return fmt.Sprintf("%s is %.3g", name, row[most])
}

// explainError adds to an error the row at which the library's numbers went wrong, and a remedy. Errors about
// another file or option, and the error of a cancelled context, stay as they are.
func explainError(rows *dataset.Rows, err error) error {
	const remedy option.Text = "check the numbers there, or give another {prior-precision}"
	if err == nil || job.IsFull(err) || job.IsCancelled(err) {
		return err
	}
	index, integer := (*linearize.IndexError)(nil), (*network.IntegerError)(nil)
	row, what := -1, ""
	if e := (*gp.NotFiniteError)(nil); errors.As(err, &e) {
		row, what = e.Row, fmt.Sprintf("the %s (output %d) is %v", e.What, e.Output, e.Value)
	} else if e := (*gp.NegativeVarianceError)(nil); errors.As(err, &e) {
		return option.Errorf("%s: the variance of output %d is %v; %s", rows.Name(e.Row), e.Output, e.Variance, remedy)
	} else if e := (*predictive.ValueError)(nil); errors.As(err, &e) {
		row, what = e.Row, fmt.Sprintf("the %s of output %d is %v", e.What, e.Output, e.Value)
	}
	switch {
	case row < 0 && (errors.As(err, &index) || errors.As(err, &integer)):
		return fmt.Errorf("%v: %w", rows, err)
	case row < 0:
		return option.Errorf("%v: %w; %s", rows, err, remedy)
	}
	if large := tooLarge(rows, row); large != "" {
		return fmt.Errorf("%s: its input %s, too large to compute with; correct it or its unit, or leave the row out", rows.Name(row), large)
	}
	return option.Errorf("%s: %s; %s", rows.Name(row), what, remedy)
}
