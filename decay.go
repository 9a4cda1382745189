package funcgp

import (
	"context"
	"strings"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/par"
)

// setDecay sets the prior precision δ by the weight decay λ of the training, nil for
// none, in the convention of PyTorch. torch.optim.SGD and Adam add λθ to the gradient of the
// loss L, so that they minimize L + ½λ‖θ‖². δ is the precision for which the MAP
// objective Σ −log p(y|f) + ½δ‖θ‖² is a multiple of that:
//
//   - CrossEntropyLoss, BCEWithLogitsLoss and PoissonNLLLoss are the mean of −log p
//     over N rows: times N, δ = N·λ. Of T targets a row, as several labels are, all but
//     CrossEntropyLoss are the mean over N·T numbers, and so is GaussianNLLLoss of a
//     heteroscedastic network: δ = N·T·λ. With weight=, CrossEntropyLoss divides
//     by the sum of the weights w_i of its rows in place of N: δ = λ·Σ w_i.
//     BCEWithLogitsLoss divides by N whatever pos_weight= is.
//   - MSELoss is the mean of (f−y)² over N rows of T targets, without the ½ and the
//     σ² of −log p = Σ (f−y)²/(2σ²): times N·T/(2σ²), δ = N·T·λ/(2σ²). At σ² = ½ that is
//     N·T·λ. Only the product δσ² moves the optimum.
//
// AdamW takes ηλθ off the parameters beside its scaled gradient steps. Where it stops
// λθ balances the scaled gradient, which is that of no prior.
//
// MSELoss knows no σ². Where neither a flag nor the metadata says it, it is the mean
// squared error of the network on its training rows, the value under which they are
// likeliest.
func (p *problem) setDecay(ctx context.Context, decay *float64) error {
	if decay == nil {
		return nil
	}
	t, n, lambda := p.Task, p.Examples.Train.Len(), *decay
	t.Precision = float64(n) * lambda
	t.PrecisionFrom = computed("N·λ = %d × %.4g, from {weight-decay}", n, lambda)
	if over := t.meanOver(p.Examples.Train); over != float64(n) {
		t.Precision = over * lambda
		t.PrecisionFrom = computed("Σw·λ = %.6g × %.4g, from {weight-decay} and the weights of the classes", over, lambda)
	}
	_, targets := p.Examples.Y.Dims()
	if targets > 1 {
		t.Precision *= float64(targets)
		t.PrecisionFrom = computed("N·λ = %d × %.4g, from {weight-decay}", n*targets, lambda)
	}
	if !hasNoise(t.Likelihood) {
		return nil
	}
	if t.NoiseFrom.By == byDefault && p.Model.Net != nil {
		f := mat.NewDense(n, p.Model.Outputs, nil)
		if err := p.Model.forward(ctx, p.Examples, p.Examples.Train, func(lo int, part *mat.Dense) {
			f.Slice(lo, lo+part.RawMatrix().Rows, 0, p.Model.Outputs).(*mat.Dense).Copy(part)
		}); err != nil {
			return err
		}
		if s := p.Examples.Scaling.meanSquare(f, p.Examples.Y); s > 0 {
			t.NoiseFrom = computed("the network's mean squared error on its training rows: nothing said otherwise")
			if err := p.Examples.Scaling.setNoise(t, s, p.Model.Outputs); err != nil {
				return err
			}
		}
	}
	numbers := n * targets
	noise := t.Noise / p.Examples.Scaling.noiseUnit(p.Model.Outputs) // the loss was that of the network's own outputs
	t.Precision = float64(numbers) * lambda / (2 * noise)
	t.PrecisionFrom = computed("N·λ/(2σ²) = %d × %.4g / (2 × %.4g), from {weight-decay} and a mean of squares", numbers, lambda, noise)
	// A network that scales its outputs itself may have had its loss taken as they come out, or before, as where the
	// scaling was added for the export. The precision is the one at which the gradient is smaller.
	e := p.Examples
	if e.Scaling == nil || e.Scaling.scaleInside == 0 || p.Model.Net == nil {
		return nil
	}
	noise /= e.Scaling.scaleInside * e.Scaling.scaleInside
	precision := float64(numbers) * lambda / (2 * noise)
	pull, err := p.pull(ctx)
	if err != nil {
		return err
	}
	theta := p.Model.Net.Theta()
	gradient := func(delta float64) float64 {
		return floats.Norm(floats.AddScaledTo(make([]float64, len(theta)), pull, -delta, theta), 2)
	}
	if gradient(precision) < gradient(t.Precision) {
		t.Precision = precision
		t.PrecisionFrom = computed("N·λ/(2σ²) = %d × %.4g / (2 × %.4g), from {weight-decay} and a mean of squares before the network scales its outputs by %s", numbers, lambda, noise, strings.Join(e.Scaling.outputsInside, ", "))
	}
	return nil
}

// pull is Jᵀr over all training rows.
func (p *problem) pull(ctx context.Context) ([]float64, error) {
	e, m := p.Examples, p.Model
	pull, part := make([]float64, m.Parameters()), make([]float64, m.Parameters())
	for tile := range par.Tiles(e.Train.Len(), predictRows) {
		lo, hi := par.Bounds(tile, e.Train.Len(), predictRows)
		x, err := e.Inputs(ctx, e.Train, lo, hi)
		if err != nil {
			return nil, err
		}
		f, err := m.Net.Forward(ctx, x)
		if err != nil {
			return nil, explainError(e.Train.Slice(lo, hi), err)
		}
		r := mat.NewDense(hi-lo, m.Outputs, nil)
		for i := range hi - lo {
			p.TrainTargets().Expand(lo+i, r.RawRowView(i), nil, nil, f.RawRowView(i))
		}
		if err := m.Net.VJP(ctx, part, x, r); err != nil {
			return nil, explainError(e.Train.Slice(lo, hi), err)
		}
		floats.Add(pull, part)
	}
	return pull, nil
}

// meanSquare is the mean of the squared differences of two matrices.
func meanSquare(a, b *mat.Dense) float64 {
	var d mat.Dense
	d.Sub(a, b)
	sum := 0.0
	for _, v := range d.RawMatrix().Data {
		sum += v * v
	}
	return sum / float64(len(d.RawMatrix().Data))
}
