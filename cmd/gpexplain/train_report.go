package main

import (
	"fmt"
	"io"

	"github.com/funcgp/funcgp/explain"
)

// trainReport is what train prints with --json.
type trainReport struct {
	Out           string           `json:"out"`
	Parameters    int              `json:"parameters"`
	Examples      int              `json:"examples"`
	Objective     explain.Float    `json:"objective"`
	LogLikelihood explain.Float    `json:"log_likelihood"`
	GradientNorm  explain.Float    `json:"gradient_norm"`
	TrainAccuracy explain.Float    `json:"train_accuracy"`
	TestAccuracy  explain.Float    `json:"test_accuracy"`
	TrainNLL      explain.Float    `json:"train_nll"`
	TestNLL       explain.Float    `json:"test_nll"`
	Warnings      explain.Warnings `json:"warnings"`
	Seconds       explain.Float    `json:"seconds"`
}

func (r *trainReport) text(stdout io.Writer) error {
	fmt.Fprintf(stdout, "%d parameters trained on %d examples in %.1f s\n", r.Parameters, r.Examples, float64(r.Seconds))
	fmt.Fprintf(stdout, "objective %.6g, log likelihood %.6g, gradient norm %.3g\n", float64(r.Objective), float64(r.LogLikelihood), float64(r.GradientNorm))
	line := func(name string, accuracy, nll explain.Float) {
		if !nll.Finite() {
			return
		}
		fmt.Fprintf(stdout, "%-8s  NLL %.5f", name, float64(nll))
		if accuracy.Finite() {
			fmt.Fprintf(stdout, "  accuracy %.4f", float64(accuracy))
		}
		fmt.Fprintln(stdout)
	}
	line("training", r.TrainAccuracy, r.TrainNLL)
	line("test", r.TestAccuracy, r.TestNLL)
	for _, w := range r.Warnings {
		fmt.Fprintf(stdout, "warning: %s\n", oneLine(w))
	}
	_, err := fmt.Fprintf(stdout, "wrote %s\n", r.Out)
	return err
}
