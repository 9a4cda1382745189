package main

import (
	"fmt"
	"io"

	"github.com/funcgp/funcgp/explain/report"
)

// trainReport is what train prints with --json.
type trainReport struct {
	Out           string          `json:"out"`
	Parameters    int             `json:"parameters"`
	Examples      int             `json:"examples"`
	Objective     report.Float    `json:"objective"`
	LogLikelihood report.Float    `json:"log_likelihood"`
	GradientNorm  report.Float    `json:"gradient_norm"`
	TrainAccuracy report.Float    `json:"train_accuracy"`
	TestAccuracy  report.Float    `json:"test_accuracy"`
	TrainNLL      report.Float    `json:"train_nll"`
	TestNLL       report.Float    `json:"test_nll"`
	Warnings      report.Warnings `json:"warnings"`
	Seconds       report.Float    `json:"seconds"`
}

func (r *trainReport) text(stdout io.Writer) error {
	fmt.Fprintf(stdout, "%d parameters trained on %d examples in %.1f s\n", r.Parameters, r.Examples, float64(r.Seconds))
	fmt.Fprintf(stdout, "objective %.6g, log likelihood %.6g, gradient norm %.3g\n", float64(r.Objective), float64(r.LogLikelihood), float64(r.GradientNorm))
	line := func(name string, accuracy, nll report.Float) {
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
