package problem

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/job"
)

// Pool reads rows whose labels are not used: a file or folder as --input takes it, or
// the training rows of data as --data names them, but those of this problem where it is
// trained on the same data.
func (p *Problem) Pool(ctx context.Context, c *job.Job, name string) (*Asked, error) {
	kind, _, _ := strings.Cut(name, ":")
	isData := kind == "digits" || name == "mnist"
	if info, err := os.Stat(name); !isData && err == nil && info.IsDir() {
		idx, _ := filepath.Glob(filepath.Join(name, "*-ubyte*"))
		isData = len(idx) > 0
	}
	var pool *Asked
	var err error
	if isData {
		pool, err = p.poolOfData(ctx, c, name)
	} else {
		pool, err = (&RowFlags{Input: name}).inputs(ctx, c, p)
	}
	if err != nil {
		return nil, err
	}
	if pool.Len() == 0 {
		return nil, job.FullErrorf("--pool %s: there is no row that the posterior is not trained on; give another pool", name)
	}
	return pool, nil
}

func (p *Problem) poolOfData(ctx context.Context, c *job.Job, name string) (*Asked, error) {
	d, err := dataset.Open(ctx, name, &dataset.OpenOptions{Seed: p.Limits.Seed, MaxBytes: gp.MemoryBudget(p.Limits.Memory), Progress: c.Show})
	c.Clear()
	if err != nil {
		return nil, err
	}
	if !slices.Equal(d.Shape, p.Examples.Data.Shape) {
		return nil, job.FullErrorf("--pool %s: a row has the shape %v, but those of %s have %v; give rows like these", name, d.Shape, p.Examples.Data.Source, p.Examples.Data.Shape)
	}
	o := &dataset.SelectOptions{Classes: p.Examples.classes, From: "--pool"}
	rows, err := d.Train.Select(o)
	if err != nil || Fingerprint(d.Train) != Fingerprint(p.Examples.Data.Train) {
		return &Asked{Subset: rows, File: name}, err
	}
	for _, r := range rows.Rows {
		if !slices.Contains(p.Examples.Train.Rows, r) {
			o.Rows = append(o.Rows, r)
		}
	}
	if o.Rows == nil {
		return &Asked{Subset: &dataset.Subset{Set: d.Train}, File: name}, nil
	}
	rows, err = d.Train.Select(o)
	return &Asked{Subset: rows, File: name, Notes: []string{fmt.Sprintf("%s: %s rows that are no training rows", name, job.Count(len(o.Rows)))}}, err
}
