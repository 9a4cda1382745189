package reproduce

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"slices"

	"github.com/funcgp/funcgp/internal/inputfile"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/studies/synthetic"
)

// Rows are inputs N×D and targets N×1.
type Rows struct{ X, Y *mat.Dense }

// slice returns rows [lo, hi).
func (r Rows) slice(lo, hi int) Rows {
	_, d := r.X.Dims()
	_, t := r.Y.Dims()
	return Rows{r.X.Slice(lo, hi, 0, d).(*mat.Dense), r.Y.Slice(lo, hi, 0, t).(*mat.Dense)}
}

// then returns the rows with those of s after them.
func (r Rows) then(s Rows) Rows { return Rows{stack(r.X, s.X), stack(r.Y, s.Y)} }

// Examples are the parts of a data set with features standardized by the training
// rows.
type Examples struct{ Train, Valid, Test Rows }

// ReadSplit reads split k of dir/name.csv and dir/name.splits.csv. With one output
// the targets are 0 and 1, else class indices.
func ReadSplit(ctx context.Context, dir, name string, k int) (*Examples, error) {
	d, err := dataset.Open(ctx, filepath.Join(dir, name+".csv"), &dataset.OpenOptions{Split: &k})
	if err != nil {
		return nil, err
	}
	e := &Examples{}
	for _, part := range []struct {
		from *dataset.Rows
		to   *Rows
	}{{d.Train, &e.Train}, {d.Valid, &e.Valid}, {d.Test, &e.Test}} {
		rows, err := part.from.Select(d.Classes(), 0)
		if err != nil {
			return nil, err
		}
		*part.to = Rows{rows.Matrix(), mat.NewDense(rows.Len(), 1, rows.Targets)}
	}
	return e, e.standardize()
}

// waveform is the set that is drawn by its published rule.
const waveform = "waveform"

// waveformSplit is split k of 1,000 drawn rows, 70/15/15, stratified by class.
func waveformSplit(k int) (*Examples, error) {
	x, y := synthetic.Waveform.Rows(rand.New(rand.NewPCG(1, 0x3a7e)), 1000)
	classes := make([][]int, 3)
	for _, row := range rand.New(rand.NewPCG(uint64(k), 0x5b117)).Perm(len(y)) {
		classes[y[row]] = append(classes[y[row]], row)
	}
	var rows [3][]int // of the parts
	for _, of := range classes {
		n := len(of)
		rows[0] = append(rows[0], of[:70*n/100]...)
		rows[1] = append(rows[1], of[70*n/100:85*n/100]...)
		rows[2] = append(rows[2], of[85*n/100:]...)
	}
	e := &Examples{}
	for i, to := range []*Rows{&e.Train, &e.Valid, &e.Test} {
		to.X, to.Y = new(mat.Dense), mat.NewDense(len(rows[i]), 1, nil)
		rowsTo(to.X, x, rows[i])
		for j, r := range rows[i] {
			to.Y.Set(j, 0, float64(y[r]))
		}
	}
	return e, e.standardize()
}

// standardize scales the features to mean 0 and deviation 1 over the training rows.
func (e *Examples) standardize() error {
	s, err := dataset.NewScaling(e.Train.X)
	if err != nil {
		return err
	}
	for _, part := range []Rows{e.Train, e.Valid, e.Test} {
		s.Apply(part.X)
	}
	return nil
}

// SplitSum is the SHA-256 of the files of ReadSplit.
func SplitSum(ctx context.Context, dir, name string) (string, error) {
	return inputfile.Sum(ctx, filepath.Join(dir, name+".csv"), filepath.Join(dir, name+".splits.csv"))
}

// Clusters are synthetic examples for quick runs: overlapping Gaussian clusters, one
// a class, in d dimensions, with n rows in each part.
func Clusters(seed uint64, n, d, classes int) (*Examples, error) {
	rng := rand.New(rand.NewPCG(seed, 0xc105))
	centers := mat.NewDense(classes, d, nil)
	for c := range classes {
		for j := range d {
			centers.Set(c, j, 1.3*rng.NormFloat64())
		}
	}
	e := &Examples{}
	for _, part := range []*Rows{&e.Train, &e.Valid, &e.Test} {
		*part = Rows{mat.NewDense(n, d, nil), mat.NewDense(n, 1, nil)}
		for i := range n {
			c := i % classes
			part.Y.Set(i, 0, float64(c))
			for j := range d {
				part.X.Set(i, j, centers.At(c, j)+rng.NormFloat64())
			}
		}
	}
	return e, e.standardize()
}

func count(x *mat.Dense) int { n, _ := x.Dims(); return n }

// stack returns a with b below it.
func stack(a, b *mat.Dense) *mat.Dense {
	var s mat.Dense
	s.Stack(a, b)
	return &s
}

// rowsTo copies rows of a to dst.
func rowsTo(dst, a *mat.Dense, rows []int) {
	_, d := a.Dims()
	*dst = *mat.NewDense(len(rows), d, nil)
	for i, r := range rows {
		dst.SetRow(i, a.RawRowView(r))
	}
}

// sampleRows are n random rows of a number of rows, in ascending order, or all where
// there are fewer.
func sampleRows(rows, n, seed int) []int {
	list := rand.New(rand.NewPCG(uint64(seed), 0x100)).Perm(rows)
	list = list[:min(rows, n)]
	slices.Sort(list)
	return list
}
