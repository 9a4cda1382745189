package report

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/funcgp/funcgp/explain/result"
)

// AcquirePage returns the page with the ranking of the pool and the batch.
func AcquirePage(a *result.Acquisition) *ListPage {
	add := func(l *List, index result.Index, id, name string, class, first, second result.Float) {
		l.Items = append(l.Items, ListItem{Row: ListedRow{Index: index, ID: id, Label: classText(name, class)},
			Values: []string{fmt.Sprintf("%.4g", float64(first)), fmt.Sprintf("%.4g", float64(second))}})
	}
	ranking := List{Title: fmt.Sprintf("The first %s of %s rows", result.Count(len(a.Ranking)), result.Count(a.Pool)), Label: "predicted", Columns: []string{"information", "gain"},
		Note: sentence(result.InformationMeaning, result.GainMeaning), Empty: "No row has a score."}
	for _, x := range a.Ranking {
		add(&ranking, x.Index, x.ID, x.ClassName, x.Class, x.Information, x.Gain)
	}
	p := &ListPage{Lists: []List{ranking}, Fit: &a.Fit, Timings: &a.Timings}
	if len(a.Batch) > 0 {
		batch := List{Title: "The batch", Label: "predicted", Columns: []string{"gain", "together"}, Note: sentence(result.GainMeaning)}
		for _, x := range a.Batch {
			add(&batch, x.Index, x.ID, x.ClassName, x.Class, x.Gain, x.Total)
		}
		p.Lists = append(p.Lists, batch)
	}
	return p
}

// AcquireColumns are the columns of a table of the rows of a pool, with their units. The place in the batch counts from 1.
func AcquireColumns(batch []result.Chosen) []Column[*result.Acquired] {
	type row = *result.Acquired
	number := func(name string, of func(x row) result.Float) Column[row] {
		return Column[row]{name, func(x row) string { return exact(of(x)) }}
	}
	chosen := func(name string, of func(place int) string) Column[row] {
		return Column[row]{name, func(x row) string {
			k := slices.IndexFunc(batch, func(c result.Chosen) bool { return c.Index == x.Index })
			if k < 0 {
				return ""
			}
			return of(k)
		}}
	}
	return []Column[row]{
		{"row", func(x row) string { return strconv.Itoa(int(x.Index)) }},
		{"id", func(x row) string { return x.ID }},
		{"predicted", func(x row) string { return classText(x.ClassName, x.Class) }},
		number("information_nats", func(x row) result.Float { return x.Information }),
		number("gain_nats", func(x row) result.Float { return x.Gain }),
		chosen("batch", func(k int) string { return strconv.Itoa(k + 1) }),
		chosen("batch_gain_nats", func(k int) string { return exact(batch[k].Gain) }),
	}
}
