package descent

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// descended is where gradient descent with momentum is, step by step, on
// (½h(θ−1)² + ½δθ²)/N from θ = 0.
func descended(d Descent, rows int, h float64) float64 {
	theta, velocity := 0.0, 0.0
	for range d.Steps {
		velocity = d.Momentum*velocity + (h*(theta-1)+d.Decay*theta)/float64(rows)
		theta -= d.Rate * velocity
	}
	return theta
}

// Where rows say little, h → 0, a ridge of the precision, whose optimum is h/(h+δ), is where
// descent ends. Momentum takes about 1/(1−μ) steps to begin, and steps are no flow.
func TestPrecisionOfDescent(t *testing.T) {
	for _, d := range []Descent{
		{Rate: 0.01, Momentum: 0.9, Steps: 3950},
		{Rate: 0.01, Momentum: 0.9, Steps: 3950, Decay: 0.5},
		{Rate: 0.01, Momentum: 0.9, Steps: 3950, Decay: 30},
		{Rate: 0.1, Steps: 1000},
		{Rate: 0.1, Steps: 1000, Decay: 300},
		{Rate: 0.02, Momentum: 0.5, Steps: 2000, Decay: 5},
	} {
		const rows, h = 1000, 1e-6
		delta, err := d.Precision(rows)
		require.NoError(t, err)
		require.InEpsilon(t, h/(h+delta), descended(d, rows, h), 0.02, "%+v", d)
	}
}

// The rule by hand: 1,000 rows, 750 steps of .01 with momentum .9, and its limits in the
// decay.
func TestPrecisionLimits(t *testing.T) {
	d := Descent{Rate: 0.01, Momentum: 0.9, Steps: 750}
	length, err := d.Precision(1000)
	require.NoError(t, err)
	require.InEpsilon(t, 100/7.5, length, 1e-12)
	for _, one := range []struct{ decay, want, tolerance float64 }{{1e-9, length, 1e-9}, {2, 2 / (1 - math.Exp(-2*7.5/100)), 1e-12}, {1e4, 1e4, 1e-12}, {1e300, 1e300, 1e-12}} {
		d.Decay = one.decay
		got, err := d.Precision(1000)
		require.NoError(t, err)
		require.InEpsilon(t, one.want, got, one.tolerance)
		require.GreaterOrEqual(t, got, max(length, one.decay)*(1-1e-12))
	}
}

func TestPrecisionErrors(t *testing.T) {
	good := Descent{Rate: 0.1, Momentum: 0.9, Steps: 10}
	for _, one := range []struct {
		rows   int
		change func(d *Descent)
		says   string
	}{
		{0, func(*Descent) {}, "0 rows"},
		{5, func(d *Descent) { d.Rate = math.NaN() }, "step size NaN"},
		{5, func(d *Descent) { d.Rate = 0 }, "step size 0"},
		{5, func(d *Descent) { d.Momentum = 1 }, "momentum 1"},
		{5, func(d *Descent) { d.Steps = 0 }, "0 steps"},
		{5, func(d *Descent) { d.Decay = -1 }, "-1 of the decay"},
	} {
		d := good
		one.change(&d)
		_, err := d.Precision(one.rows)
		require.ErrorContains(t, err, one.says)
	}
}

// Where another training of the same length would leave the terms.
func ExampleDescent_Precision() {
	d := Descent{Rate: 0.01, Momentum: 0.9, Steps: 50 * 15}
	delta, err := d.Precision(1000)
	fmt.Printf("%.1f %v\n", delta, err)
	// Output: 13.3 <nil>
}
