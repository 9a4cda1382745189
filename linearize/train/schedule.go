package train

import (
	"fmt"
	"math"
)

// A Schedule says how the step size changes over the minibatches of MAP: Constant, Cosine, StepDecay or Plateau.
type Schedule interface {
	check() error
	start(rate float64, steps int) schedule
}

// A schedule is a Schedule in use.
type schedule interface {
	rate(step int) float64   // step size of a step, counted from 0
	epochEnded(loss float64) // loss of the epoch, or of the validation rows if there are any
}

// Cosine lowers the step size to 1 % of the first one along half a cosine.
type Cosine struct{}

// Constant keeps the step size.
type Constant struct{}

// StepDecay multiplies the step size by Factor after every Epochs epochs.
type StepDecay struct {
	Epochs int     // 0 means 30
	Factor float64 // 0 means 0.1
}

// Plateau multiplies the step size by Factor after more than Patience epochs without a loss below (1−Threshold)
// times the smallest, as PyTorch's ReduceLROnPlateau does. The loss is the loss of the validation rows, or without
// them the mean objective of the epoch.
type Plateau struct {
	Factor    float64 // 0 means 0.5
	Patience  int     // 0 means 5, a negative number means 0
	Threshold float64 // 0 means 1e-4
	Least     float64 // the smallest step size
}

var _, _, _, _ Schedule = Cosine{}, Constant{}, StepDecay{}, Plateau{}

func (Cosine) check() error   { return nil }
func (Constant) check() error { return nil }

func (s StepDecay) check() error {
	if s.Epochs < 0 || !(s.Factor >= 0 && s.Factor <= 1) {
		return fmt.Errorf("train: a step size times %v every %d epochs; want a factor between 0 and 1 and a positive number", s.Factor, s.Epochs)
	}
	return nil
}

func (s Plateau) check() error {
	if !(s.Factor >= 0 && s.Factor < 1) || !(s.Threshold >= 0 && s.Threshold < 1) || !(s.Least >= 0) {
		return fmt.Errorf("train: a step size times %v at plateaus with threshold %v, at least %v; want a factor and threshold between 0 and 1 and a least that is not negative", s.Factor, s.Threshold, s.Least)
	}
	return nil
}

// byStep is a schedule that depends on the step alone.
type byStep func(step int) float64

func (f byStep) rate(step int) float64 { return f(step) }
func (byStep) epochEnded(float64)      {}

func (Cosine) start(rate float64, steps int) schedule {
	return byStep(func(step int) float64 {
		return rate * (0.01 + 0.99*0.5*(1+math.Cos(math.Pi*float64(step)/float64(steps))))
	})
}

func (Constant) start(rate float64, _ int) schedule {
	return byStep(func(int) float64 { return rate })
}

// A falling schedule changes the step size between epochs only.
type falling struct {
	now   float64
	ended func(f *falling, loss float64)
}

func (f *falling) rate(int) float64        { return f.now }
func (f *falling) epochEnded(loss float64) { f.ended(f, loss) }

func (s StepDecay) start(rate float64, _ int) schedule {
	if s.Epochs == 0 {
		s.Epochs = 30
	}
	if s.Factor == 0 {
		s.Factor = 0.1
	}
	epoch := 0
	return &falling{rate, func(f *falling, _ float64) {
		if epoch++; epoch%s.Epochs == 0 {
			f.now *= s.Factor
		}
	}}
}

func (s Plateau) start(rate float64, _ int) schedule {
	if s.Factor == 0 {
		s.Factor = 0.5
	}
	if s.Threshold == 0 {
		s.Threshold = 1e-4
	}
	if s.Patience == 0 {
		s.Patience = 5
	}
	best, bad := math.Inf(1), 0
	return &falling{rate, func(f *falling, loss float64) {
		// A loss may be negative where a density is above 1: it must also fall by the share Threshold of its size.
		if bad++; math.IsInf(best, 1) || loss < best-s.Threshold*math.Abs(best) {
			best, bad = loss, 0
		}
		if bad > max(s.Patience, 0) {
			bad = 0
			// PyTorch ignores changes up to 1e-8.
			if next := max(f.now*s.Factor, s.Least); f.now-next > 1e-8 {
				f.now = next
			}
		}
	}}
}
