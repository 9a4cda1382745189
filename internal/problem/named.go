package problem

import (
	"fmt"

	"github.com/funcgp/funcgp/explain/report"
	"github.com/funcgp/funcgp/internal/dataset"
)

// NameOf is the name of the class of a label of the data, "" for none.
func (p *Problem) NameOf(label report.Float) string {
	if p.Task.Classes == nil || !label.Finite() {
		return ""
	}
	return p.Task.Name(int(label))
}

// LabelName is the name of the label of row i of a subset, "" for none. Of a row among
// the others of --outputs it is that of its own class.
func (p *Problem) LabelName(rows *dataset.Subset, i int) string {
	name := p.NameOf(report.Float(Label(rows, i)))
	if own := p.Task.OwnClass(rows, i); own != "" {
		return fmt.Sprintf("%s (%s)", own, name)
	}
	return name
}

// TrainingRows names the training rows in reports.
func (p *Problem) TrainingRows() report.Rows {
	train := p.Examples.Train
	r := report.Rows{Index: train.Rows, ID: train.IDs, Classes: p.Task.Labels(), ClassNames: p.Task.Names}
	if train.Set.Width() == 1 {
		r.Label = Labels(train)
		for i := range r.Label {
			if p.Task.Grouping != nil {
				r.LabelNames = append(r.LabelNames, p.LabelName(train, i))
			}
		}
	} else {
		r.Targets, r.Width = train.Targets, train.Set.Width()
	}
	return r
}

// OutputNames are the names of the outputs where there is a target column for each.
func (p *Problem) OutputNames() []string {
	list := p.Examples.Data.TargetColumns
	if HasLogVariances(p.Task.Likelihood) {
		return withLogVariances(list, p.Model.Outputs/2)
	}
	if len(list) > 1 && len(list) == p.Model.Outputs {
		return list
	}
	return nil
}

// withLogVariances are the names of k targets, which may have none, and of their log
// noise variances.
func withLogVariances(list []string, k int) []string {
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

// IDOf is the name of row i of a subset, "" where rows have none.
func IDOf(rows *dataset.Subset, i int) string {
	if rows.IDs == nil {
		return ""
	}
	return rows.IDs[i]
}
