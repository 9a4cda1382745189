package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/predictive"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/linearize"
)

// A Candidate is a row of the pool.
type Candidate struct {
	Index int // position in the pool
	// Information is the expected information gain: the mutual information of the label
	// and the function at the row, in nats. It equals Gain for a Gaussian likelihood, and also for
	// Poisson and heteroscedastic likelihoods, which have no closed form.
	Information float64
	// Gain is ½ log det(I + RᵀCR), in nats, with the posterior covariance C of the row and
	// Λ = RRᵀ at the posterior mean: the information of a label to second order. It is at least 0.
	Gain float64
	Mean []float64 // of the function, length C
}

// A Chosen is a row of a batch.
type Chosen struct {
	Index int     // position in the pool
	Gain  float64 // nats that its label adds to those of the rows chosen before
	Total float64 // nats of all labels so far: ½ log det(I + RᵀCR) of their joint covariance
}

// An Acquisition ranks an unlabelled pool. Ranking holds positions in Pool, with ties in the order
// of the pool; rows whose Information is NaN are left out.
type Acquisition struct {
	Pool     []Candidate
	Ranking  []int    // by Information, the highest first
	Batch    []Chosen // in the order in which they were chosen
	Warnings []error  // named batch-rough
}

// Acquire ranks the rows of a pool by what their labels would tell about the function of
// a posterior, and chooses a batch greedily: each next row has the largest gain
// given labels of the rows before, which is a pivoted Cholesky factorization of
// I + RᵀCR with the joint posterior covariance C of the pool. The gains do not depend on
// the labels, and the whole batch has at least 1 − 1/e of the gain of the best batch, since log det
// is submodular.
//
// The joint covariance is computed for the rows with the largest individual gains only. Their
// number is doubled until no other row could have been chosen. If that does not fit into memory,
// the warning batch-rough says so.
//
// batch is the number of rows to choose; 0 chooses none. The error is a *BatchError for an empty pool or too large a
// batch, an *UnsupportedError for a likelihood whose Λ may depend on y, or an error of the posterior or of the link.
func Acquire(ctx context.Context, d gp.Latent, lik glm.Likelihood, pool linearize.Source, batch int, limits linearize.Limits) (*Acquisition, error) {
	q := &acquirer{latent: d, lik: lik, pool: pool, batch: batch, limits: limits}
	if batch < 0 || limits.Memory < 0 {
		panic("audit: options out of range")
	}
	if n := pool.Len(); n == 0 || q.batch > n {
		return nil, &BatchError{Batch: q.batch, Pool: n}
	}
	// Compute the information of every row.
	n := q.pool.Len()
	err := linearize.Rebatch(q.pool, tileRows).Batches(ctx, func(first int, b *linearize.Batch) error {
		switch q.lik.(type) {
		case glm.Logistic, *glm.Gaussian, glm.Poisson, glm.Heteroscedastic:
		default: // Λ may depend on the label
			return &UnsupportedError{Likelihood: q.lik.Name(), Outputs: b.Outputs(), Reason: "what a label tells is known where Λ does not depend on it, as for the likelihoods of package glm"}
		}
		var mean, cov mat.Dense
		if err := q.latent.PredictTo(ctx, &mean, &cov, b); err != nil {
			return fmt.Errorf("audit: prediction of row %d of the pool and others: %w", first, err)
		}
		q.add(first, &mean, &cov)
		defer q.limits.Show(StagePool, first+b.Len(), n)
		// Replace the gains by the mutual information where the link computes it.
		m, c := mean.Dims()
		link := predictive.DefaultLink(q.lik, c)
		if points, ok := link.(predictive.QMC); ok {
			points.Tol, points.MaxPoints = 1e-3, 4096 // an error far below the differences that ranks depend on
			link = points
		}
		informer, ok := link.(predictive.Informer)
		if _, classes := q.lik.(glm.Logistic); !ok || !classes {
			return nil
		}
		// Take one row at a time, so that the workers share the rows.
		return par.Do(ctx, m, func(t int) error {
			var mutual [1]float64
			err := informer.EntropyTo(nil, mutual[:], q.lik, dense.Slice(&mean, t, t+1), dense.Slice(&cov, t*c, (t+1)*c))
			q.found.Pool[first+t].Information = mutual[0]
			if err != nil {
				return fmt.Errorf("audit: row %d of the pool: %w", first+t, err)
			}
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	q.found.Ranking = q.order(func(x *Candidate) float64 { return x.Information })
	if q.batch == 0 {
		return &q.found, nil
	}
	return &q.found, q.choose(ctx)
}

// An acquirer holds what an acquisition is computed from.
type acquirer struct {
	latent gp.Latent
	lik    glm.Likelihood
	pool   linearize.Source
	batch  int
	limits linearize.Limits
	found  Acquisition
}

// add appends rows with their gains.
func (q *acquirer) add(first int, mean, cov *mat.Dense) {
	n, c := mean.Dims()
	for t := range n {
		f := mean.RawRowView(t)
		gain, _ := gainOf(dense.Slice(cov, t*c, (t+1)*c), q.rootAt(f))
		q.found.Pool = append(q.found.Pool, Candidate{Index: first + t, Gain: gain, Information: gain, Mean: slices.Clone(f)})
	}
}

// rootAt returns R with Λ = RRᵀ at f, which is the same for every label.
func (q *acquirer) rootAt(f []float64) *mat.Dense {
	c := len(f)
	root := mat.NewDense(c, c, nil)
	q.lik.Expand(nil, nil, root.RawMatrix().Data, make([]float64, q.lik.Targets(c)), f)
	return root
}

// order returns the positions of the rows sorted by key, the highest first, without those whose key is NaN.
func (q *acquirer) order(key func(x *Candidate) float64) []int {
	var order []int
	for t := range q.found.Pool {
		if !math.IsNaN(key(&q.found.Pool[t])) {
			order = append(order, t)
		}
	}
	slices.SortStableFunc(order, func(s, t int) int { return cmp.Compare(key(&q.found.Pool[t]), key(&q.found.Pool[s])) })
	return order
}

// fewCandidates is the least number of rows from which a batch is chosen at first.
const fewCandidates = 64

// choose finds the batch.
func (q *acquirer) choose(ctx context.Context) error {
	byGain := q.order(func(x *Candidate) float64 { return x.Gain })
	if len(byGain) < q.batch {
		return &BatchError{Batch: q.batch, Pool: len(byGain)}
	}
	for m := min(len(byGain), max(fewCandidates, 4*q.batch)); ; m = min(2*m, len(byGain)) {
		bound := math.Inf(-1)
		if m < len(byGain) {
			// A row adds at most its individual gain to a batch.
			bound = q.found.Pool[byGain[m]].Gain
		}
		batch, step, err := q.chooseAmong(ctx, slices.Sorted(slices.Values(byGain[:m])), bound)
		var full *gp.MemoryError
		if errors.As(err, &full) && q.found.Batch != nil {
			return nil
		}
		if err != nil {
			return err
		}
		q.found.Batch, q.found.Warnings = batch, nil
		if step == q.batch {
			return nil
		}
		q.found.Warnings = []error{linearize.NewWarning("batch-rough", bound, batch[step].Gain, "Raise Limits.Memory.",
			"The batch was chosen among %d of %d rows, whose joint covariance fits into memory. From its row %d on, which adds %.3g nats, another row could add up to %.3g.", m, len(byGain), step+1, batch[step].Gain, bound)}
	}
}

// chooseAmong chooses the batch among the given rows of the pool, which ascend. step is the number
// of rows before the first at which a row that adds up to bound might have been better.
func (q *acquirer) chooseAmong(ctx context.Context, rows []int, bound float64) (batch []Chosen, step int, err error) {
	c := len(q.found.Pool[0].Mean)
	need := func(m int) int64 { return 8 * int64(m) * int64(c) * int64(m+q.batch+2*c) * int64(c) }
	if err := gp.CheckMemory("the joint covariance of a pool", gp.TestExamples, len(rows), q.limits.Memory, need); err != nil {
		return nil, 0, err
	}
	x, err := linearize.Gather(ctx, q.pool, rows)
	if err != nil {
		return nil, 0, fmt.Errorf("audit: row %d of the pool and others: %w", rows[0], err)
	}
	var cov mat.Dense
	if err := q.latent.JointTo(ctx, nil, &cov, x); err != nil {
		return nil, 0, fmt.Errorf("audit: joint covariance of row %d of the pool and others: %w", rows[0], err)
	}
	m := len(rows)
	s := &selection{cov: &cov, own: make([]*mat.Dense, m), root: make([]*mat.Dense, m), taken: make([]bool, m), c: c}
	for i, t := range rows {
		s.own[i] = mat.DenseCopyOf(cov.Slice(i*c, (i+1)*c, i*c, (i+1)*c))
		s.root[i] = q.rootAt(q.found.Pool[t].Mean)
	}
	total, sure := 0.0, true
	for k := range q.batch {
		// Take the row of the largest gain, the first of equal ones.
		var row int
		var err error
		gains := make([]float64, len(s.own))
		err = par.Do(ctx, len(s.own), func(i int) error {
			if gains[i] = math.Inf(-1); !s.taken[i] {
				if gain, chol := gainOf(s.own[i], s.root[i]); chol != nil {
					gains[i] = gain
				}
			}
			return nil
		})
		if err != nil {
			return nil, 0, err
		}
		for i, g := range gains {
			if g > gains[row] || s.taken[row] {
				row = i
			}
		}
		i, gain, err := row, gains[row], s.take(ctx, row)
		if err != nil {
			return nil, 0, err
		}
		total += gain
		batch = append(batch, Chosen{Index: rows[i], Gain: gain, Total: total})
		if sure = sure && gain >= bound; sure {
			step = k + 1
		}
		q.limits.Show(StageBatch, k+1, q.batch)
	}
	return batch, step, nil
}

// A selection is a block-pivoted Cholesky factorization of I + RᵀCR.
type selection struct {
	cov   *mat.Dense   // joint covariance, M·C×M·C
	own   []*mat.Dense // covariance of each row given the labels of those chosen, C×C
	root  []*mat.Dense // R of each row
	taken []bool
	parts []*mat.Dense // L⁻¹RᵀC of each chosen row with all rows, C×M·C
	c     int
}

// take conditions all rows on a label of one.
func (s *selection) take(ctx context.Context, row int) error {
	c, n := s.c, s.cov.RawMatrix().Cols
	s.taken[row] = true
	// C(x_s, ·) given the labels of the rows before
	cross := mat.DenseCopyOf(s.cov.Slice(row*c, (row+1)*c, 0, n))
	for _, part := range s.parts {
		var less mat.Dense
		less.Mul(part.Slice(0, c, row*c, (row+1)*c).T(), part)
		cross.Sub(cross, &less)
	}
	_, chol := gainOf(s.own[row], s.root[row])
	if chol == nil {
		return &gp.NotPDError{What: "the covariance of a row of the pool", N: c}
	}
	var l mat.TriDense
	chol.LTo(&l)
	part := new(mat.Dense)
	part.Mul(s.root[row].T(), cross)
	// L⁻¹RᵀC; a condition warning still carries the solution.
	_ = part.Solve(&l, part)
	s.parts = append(s.parts, part)
	return par.Do(ctx, len(s.own), func(i int) error {
		var less mat.Dense
		q := part.Slice(0, c, i*c, (i+1)*c)
		less.Mul(q.T(), q)
		s.own[i].Sub(s.own[i], &less)
		return nil
	})
}

// gainOf returns ½ log det(I + RᵀcR) for the covariance c and root R, and the factor of that
// matrix. It returns NaN and nil if the matrix is not positive definite.
func gainOf(cov, root *mat.Dense) (float64, *mat.Cholesky) {
	_, chol := informed(cov, root)
	if chol == nil {
		return math.NaN(), nil
	}
	return max(0, chol.LogDet()/2), chol
}

// informed returns RᵀcR and the factor of I + RᵀcR, which is nil if that matrix is not positive
// definite.
func informed(cov, root *mat.Dense) (*mat.Dense, *mat.Cholesky) {
	c, _ := cov.Dims()
	inner := new(mat.Dense)
	inner.Product(root.T(), cov, root)
	b := mat.NewSymDense(c, nil)
	for r := range c {
		for s := r; s < c; s++ {
			b.SetSym(r, s, (inner.At(r, s)+inner.At(s, r))/2)
		}
		b.SetSym(r, r, 1+b.At(r, r))
	}
	chol := new(mat.Cholesky)
	if !chol.Factorize(b) {
		return inner, nil
	}
	return inner, chol
}
