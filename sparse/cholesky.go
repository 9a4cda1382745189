package sparse

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/memory"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// Greedy chooses one example after another, each with the largest residual
// tr(k − q) given those before. This is pivoted Cholesky on K, with the C rows of
// an example as one pivot. It keeps the columns of the factor, N·C×M·C numbers.
type Greedy struct{}

// RandomCholesky chooses one example after another, each with probability
// proportional to its residual tr(k − q). This is randomly pivoted Cholesky; its Q
// is close to the best approximation of K of the same rank, and, unlike that of
// Greedy, not misled by outliers. It keeps as many numbers as Greedy.
type RandomCholesky struct {
	Seed uint64
}

var (
	_ Selector = Greedy{}
	_ Selector = RandomCholesky{}
)

// Choose implements Selector.
func (Greedy) Choose(ctx context.Context, k ntk.Kernel, x linearize.Source, m int, o *Options) ([]int, error) {
	f, err := newCholesky(ctx, k, x, m, o)
	if err != nil {
		return nil, err
	}
	for len(f.left.rows) < m {
		pool, next := f.left.largest(poolSize(f.c))
		if len(pool) == 0 {
			break
		}
		if err := f.advance(ctx, pool, f.bestOf(next)); err != nil {
			return nil, err
		}
	}
	return f.left.rest(m, dense.Range(len(f.prior))), nil
}

// Choose implements Selector.
func (r RandomCholesky) Choose(ctx context.Context, k ntk.Kernel, x linearize.Source, m int, o *Options) ([]int, error) {
	f, err := newCholesky(ctx, k, x, m, o)
	if err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(r.Seed, choleskyStream))
	for len(f.left.rows) < m {
		pool := f.left.draw(poolSize(f.c), rng)
		if len(pool) == 0 {
			break
		}
		if err := f.advance(ctx, pool, thinned(rng)); err != nil {
			return nil, err
		}
	}
	return f.left.rest(m, rng.Perm(len(f.prior))), nil
}

// A cholesky is a partial Cholesky factor of K, whose columns are added in passes
// over the data. A candidate for a pivot is the block of C rows of an example.
type cholesky struct {
	k       ntk.Kernel
	x       linearize.Source
	o       Options
	c       int            // outputs of an example
	m       int            // candidates to choose
	left    *candidates    // tr(k − q) of each candidate
	prior   []float64      // tr k
	largest float64        // of prior
	factor  blas64.General // N·C×m·C, the first width columns valid
	width   int
}

// newCholesky computes the diagonal of K.
func newCholesky(ctx context.Context, k ntk.Kernel, x linearize.Source, m int, o *Options) (*cholesky, error) {
	f := &cholesky{k: k, x: x, o: o.withDefaults(), m: m}
	var err error
	if f.prior, f.c, err = traces(ctx, k, x); err != nil {
		return nil, err
	}
	f.left = newCandidates(len(f.prior))
	copy(f.left.w, f.prior)
	f.largest = slices.Max(f.prior)
	rows := len(f.prior) * f.c
	err = gp.CheckMemory("pivoted Cholesky over the data", gp.InducingExamples, m, f.o.Memory, func(m int) int64 {
		width := memory.Mul(int64(m), int64(f.c))
		return memory.Mul(8, memory.Add(memory.Mul(int64(rows), width), memory.Mul(int64(linearize.Tile(f.c)*f.c), width)))
	})
	if err != nil {
		return nil, err
	}
	f.factor = dense.New(rows, m*f.c)
	return f, nil
}

// exhausted is the fraction of a candidate's prior trace below which its residual
// is rounding.
const exhausted = 1e-13

// residual returns v, the residual of a candidate, or zero where v is rounding.
func (f *cholesky) residual(v float64, candidate int) float64 {
	if v <= exhausted*f.prior[candidate] {
		return 0
	}
	return v
}

// A chooser returns the position in a pool of the candidate to accept next, or −1
// where none can be accepted without a pass over the data. before holds the
// residual traces of the pool when it was formed, now those given the candidates
// accepted since, and step counts the calls.
type chooser func(step int, before, now []float64) int

// bestOf returns a chooser of the largest trace in the pool. It stops where that
// trace may not be the largest of all candidates: those outside the pool have
// traces up to next.
func (f *cholesky) bestOf(next float64) chooser {
	return func(step int, _, now []float64) int {
		best := floats.MaxIdx(now)
		if step > 0 && now[best] <= next || now[best] <= 0 {
			return -1
		}
		return best
	}
}

// thinned returns a chooser for a pool that was drawn with probabilities
// proportional to before. It accepts each candidate with probability now/before,
// so that the accepted ones are distributed as if each had been drawn by the
// traces at its time.
func thinned(rng *rand.Rand) chooser {
	at := 0
	return func(step int, before, now []float64) int {
		if step == 0 {
			at = 1
			return 0
		}
		for ; at < len(now); at++ {
			if rng.Float64()*before[at] < now[at] {
				at++
				return at - 1
			}
		}
		return -1
	}
}

// advance accepts candidates of the pool as next chooses them, and then adds their
// columns to the factor.
func (f *cholesky) advance(ctx context.Context, pool []int, next chooser) error {
	batch, err := linearize.Gather(ctx, f.x, pool)
	if err != nil {
		return err
	}
	h, err := f.poolResidual(ctx, batch, pool)
	if err != nil {
		return err
	}
	before := make([]float64, len(pool))
	for i, row := range pool {
		before[i] = f.left.w[row]
	}
	now, left := slices.Clone(before), blas64.General{Rows: h.Rows, Cols: h.Cols, Stride: h.Stride, Data: slices.Clone(h.Data)}
	var accepted []int
	for step := 0; len(f.left.rows)+len(accepted) < f.m; step++ {
		at := next(step, before, now)
		if at < 0 {
			break
		}
		accepted = append(accepted, at)
		// Condition the residual h on the rows of candidate at. It skips rows whose residual is at most
		// drop.
		per := f.c
		drop := dropPivot * f.largest
		for a := at * per; a < (at+1)*per; a++ {
			pivot := left.Data[a*left.Stride+a]
			if pivot <= drop {
				continue
			}
			row := append([]float64(nil), left.Data[a*left.Stride:][:left.Cols]...)
			for i := range left.Rows {
				floats.AddScaled(left.Data[i*left.Stride:][:left.Cols], -row[i]/pivot, row)
			}
		}
		for i, row := range pool {
			if now[i] == 0 || row == pool[at] {
				now[i] = 0 // it is chosen or exhausted, and stays at 0
				continue
			}
			sum := 0.0
			for a := i * f.c; a < (i+1)*f.c; a++ {
				sum += math.Max(0, left.Data[a*left.Stride+a])
			}
			now[i] = f.residual(sum, row)
		}
	}
	return f.addColumns(ctx, batch, pool, accepted, h)
}

// poolResidual returns k − q between the candidates of a pool.
func (f *cholesky) poolResidual(ctx context.Context, batch *linearize.Batch, pool []int) (blas64.General, error) {
	n := len(pool) * f.c
	h := dense.New(n, n)
	f.k.BlockTo(dense.View(h), batch, batch)
	if f.width == 0 {
		return h, nil
	}
	rows := f.rowsOf(pool)
	return h, dense.GemmContext(ctx, blas.NoTrans, blas.Trans, -1, rows, rows, 1, h)
}

// rowsOf copies the factor's rows of some candidates.
func (f *cholesky) rowsOf(candidates []int) blas64.General {
	out := dense.New(len(candidates)*f.c, f.width)
	for i, e := range candidates {
		for a := range f.c {
			copy(out.Data[(i*f.c+a)*out.Stride:][:f.width], f.factor.Data[(e*f.c+a)*f.factor.Stride:])
		}
	}
	return out
}

// addColumns appends the columns of the accepted candidates to the factor, in one
// pass over the data. h is the residual between the candidates of the pool.
func (f *cholesky) addColumns(ctx context.Context, batch *linearize.Batch, pool, accepted []int, h blas64.General) error {
	s, err := batch.Gather(ctx, accepted)
	if err != nil {
		return err
	}
	chosen := make([]int, len(accepted))
	for i, at := range accepted {
		chosen[i] = pool[at]
	}
	// Compute the Cholesky factor of the residual between the accepted candidates. dead lists the rows
	// with no residual given the rows before them; in the factor they are rows of the identity.
	var l blas64.Triangular
	var dead []int
	n := len(accepted) * f.c
	l = blas64.Triangular{Uplo: blas.Lower, Diag: blas.NonUnit, N: n, Stride: n, Data: make([]float64, n*n)}
	for i := range n {
		row, from := l.Data[i*n:], h.Data[(accepted[i/f.c]*f.c+i%f.c)*h.Stride:]
		for j := range i + 1 {
			before := l.Data[j*n : j*n+j]
			v := from[accepted[j/f.c]*f.c+j%f.c] - floats.Dot(row[:j], before)
			switch {
			case j < i && l.Data[j*n+j] != 0:
				row[j] = v / l.Data[j*n+j]
			case j == i && v > dropPivot*f.largest:
				row[i] = math.Sqrt(v)
			}
		}
		if row[i] == 0 {
			clear(row[:i])
			dead = append(dead, i)
		}
	}
	for _, i := range dead {
		l.Data[i*n+i] = 1
	}
	var before blas64.General
	if f.width > 0 {
		before = f.rowsOf(chosen)
	}
	lo, hi := f.width, f.width+len(accepted)*f.c
	err = eachColumns(ctx, f.k, f.x, f.c, s, func(p chunk, block blas64.General) error {
		rows := dense.Rows(f.factor, p.first*f.c, p.first*f.c+p.rows)
		if f.width > 0 {
			if err := dense.GemmContext(ctx, blas.NoTrans, blas.Trans, -1, dense.Cols(rows, 0, f.width), before, 1, block); err != nil {
				return err
			}
		}
		for i := range block.Rows {
			for _, a := range dead {
				block.Data[i*block.Stride+a] = 0
			}
		}
		// (k − q)_*S L⁻ᵀ
		if err := dense.TrsmContext(ctx, blas.Right, blas.Trans, 1, l, block); err != nil {
			return err
		}
		for i := range block.Rows {
			row := block.Data[i*block.Stride:][:block.Cols]
			copy(rows.Data[i*rows.Stride+lo:], row)
			e := (p.first*f.c + i) / f.c
			f.left.w[e] = f.residual(f.left.w[e]-floats.Dot(row, row), e)
		}
		return nil
	})
	if err != nil {
		return err
	}
	f.width = hi
	for _, e := range chosen {
		f.left.take(e)
	}
	f.o.Show(StageSelect, len(f.left.rows), f.m)
	return nil
}
