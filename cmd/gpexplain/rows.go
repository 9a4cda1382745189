package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/funcgp/funcgp/internal/dataset"
)

// selectTraining picks the training rows: those of the saved posterior, else
// those of the flags, else those that the model records if it was trained on
// these data, else all.
func (s *session) selectTraining(ctx context.Context) error {
	o := &dataset.SelectOptions{Classes: s.classed, Count: s.trainCount}
	var err error
	recorded := false
	switch {
	case s.saved != nil:
		if o.Rows, recorded = parseRows(s.saved.head.Rows, s.opened.Train.Len()); !recorded {
			return s.saved.otherData(s)
		}
	case s.trainIndex != "":
		if o.Rows, err = dataset.ReadRows(ctx, s.trainIndex); err != nil {
			return err
		}
		o.From = s.trainIndex
	case s.trainCount == 0 && s.meta.rows != "":
		if s.meta.data != fingerprint(s.opened.Train) {
			s.warn(fmt.Errorf("%s was trained on other data than %s: the training rows it records are not used", s.name, s.opened.Source))
			break
		}
		if o.Rows, recorded = parseRows(s.meta.rows, s.opened.Train.Len()); !recorded {
			return fmt.Errorf("%s: its metadata entry %s cannot be used; give --train-count or --train-index", s.name, keyRows)
		}
		o.From = s.name
	}
	s.train, err = s.opened.Train.Select(o)
	if err != nil && s.saved != nil && s.opened.Train.Len() > 0 {
		return s.saved.otherData(s)
	}
	if e := (*dataset.Error)(nil); recorded && errors.As(err, &e) {
		e.Remedy = "the model records it as a training row; give --train-count or --train-index for others"
	}
	return err
}

// testPart is the part that predictions are made for: the test rows, or where
// there are none the validation rows.
func (s *session) testPart() *dataset.Set {
	if s.opened.Test.Len() == 0 && s.opened.Valid.Len() > 0 {
		return s.opened.Valid
	}
	return s.opened.Test
}

// selectTest picks test rows; the classes are those of the session.
func (s *session) selectTest(o dataset.SelectOptions) (*dataset.Subset, error) {
	part := s.testPart()
	if part.Len() == 0 && !s.opened.Images() {
		return nil, fmt.Errorf("%s: there are no test rows; give --split K or --test-data FILE", s.opened.Source)
	}
	o.Classes = s.classed
	return part.Select(&o)
}

// label is the data's own label or target of row i.
func label(sub *dataset.Subset, i int) float64 {
	if sub.Labels != nil {
		return float64(sub.Labels[i])
	}
	return sub.Targets[i]
}

func labels(sub *dataset.Subset) []float64 {
	out := make([]float64, sub.Len())
	for i := range out {
		out[i] = label(sub, i)
	}
	return out
}

// formatRows writes row numbers compactly, for metadata: "3,5,7-9".
func formatRows(rows []int) string {
	var b strings.Builder
	for i := 0; i < len(rows); {
		j := i
		for j+1 < len(rows) && rows[j+1] == rows[j]+1 {
			j++
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(rows[i]))
		if j > i {
			b.WriteString("-" + strconv.Itoa(rows[j]))
		}
		i = j + 1
	}
	return b.String()
}

// parseRows reads what formatRows wrote; at most limit rows.
func parseRows(text string, limit int) (rows []int, ok bool) {
	for field := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(field, "-")
		lo, err := strconv.Atoi(first)
		hi := lo
		if err == nil && isRange {
			hi, err = strconv.Atoi(last)
		}
		if err != nil || lo < 0 || hi < lo || hi-lo >= limit-len(rows) {
			return nil, false
		}
		for i := range hi - lo + 1 { // lo + i stays in range where hi is the largest int
			rows = append(rows, lo+i)
		}
	}
	return rows, true
}
