package funcgp

import (
	"context"
	"math/rand/v2"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/linearize/network"
)

const (
	// invarianceRows is the most rows on which layers before a normalization are looked for.
	invarianceRows = 64
	// invarianceWork bounds the entries of the Jacobian that this takes.
	invarianceWork = 2e9
	// inspectedRows and inspectedWork are the same where no data are there.
	inspectedRows, inspectedWork = 4, 2e8
	inspectedBytes               = 64 << 20 // of their inputs and Jacobian
)

// Normalized returns the layers whose scale has no effect on the outputs, such as those before a normalization;
// with such layers, θ* is a mode for no prior. The search uses the first training rows.
func (p *problem) Normalized(ctx context.Context, con *job.Job) ([]string, error) {
	n := p.Within(min(p.Examples.Train.Len(), invarianceRows), p.Model.Net.BatchBytes)
	x, err := p.Examples.Inputs(ctx, p.Examples.Train, 0, n)
	if err != nil {
		return nil, err
	}
	names, err := normalizedAt(ctx, con, p.Model.Net, x, invarianceWork)
	if names == nil {
		names = []string{}
	}
	return names, err
}

// Normalized finds the layers whose scale has no effect on the outputs without data, on rows of normal random
// numbers. It returns nil if the network takes integers or is too large.
func (m *trainedModel) Normalized(ctx context.Context, con *job.Job) ([]string, error) {
	for _, in := range m.Net.Inputs() {
		if in.Integer {
			return nil, nil
		}
	}
	d, _, _ := m.Net.Dims()
	if d > inspectedBytes/8/inspectedRows || m.Net.BatchBytes(inspectedRows) > inspectedBytes {
		return nil, nil
	}
	rng, x := rand.New(rand.NewPCG(1, 2)), mat.NewDense(inspectedRows, d, nil)
	for i := range x.RawMatrix().Data {
		x.RawMatrix().Data[i] = rng.NormFloat64()
	}
	return normalizedAt(ctx, con, m.Net, x, inspectedWork)
}

// normalizedAt searches on as many of the rows as the work allows. It returns nil if that is fewer than two.
func normalizedAt(ctx context.Context, con *job.Job, net *network.Network, x *mat.Dense, work float64) ([]string, error) {
	_, c, p := net.Dims()
	rows, d := x.Dims()
	if rows = int(min(float64(rows), work/float64(c*max(1, p)))); rows < 2 {
		return nil, nil
	}
	layers, err := net.TrainingInvariances(ctx, x.Slice(0, rows, 0, d).(*mat.Dense))
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		con.Detail("normalized layers were not looked for: %v", err)
		return nil, nil
	}
	names := []string{}
	for _, l := range layers {
		if l.Invariant() {
			names = append(names, l.Name)
		}
	}
	return names, nil
}
