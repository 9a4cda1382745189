package funcgp

import (
	"errors"
	"regexp"
	"strings"

	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/option"
)

// goNames are the names in this package of what a flag of the command says. What a program cannot say
// keeps the flag's name.
var goNames = map[string]string{
	"model": "Model.File", "freeze": "Model.Freeze", "learn": "Model.Learn", "output": "Model.Output", "bind": "Model.Bind",
	"data": "Data.Source", "target": "Data.Target", "id": "Data.ID", "row-weights": "Data.RowWeights", "test-data": "Data.TestFile", "valid-data": "Data.ValidFile",
	"classes": "Data.Classes", "class-names": "Data.ClassNames", "train-count": "Data.TrainCount", "train-index": "Data.TrainFile",
	"likelihood": "Likelihood", "noise-variance": "NoiseVariance", "standardize": "Standardize", "calibrate": "Calibrate", "seed": "Seed", "force": "FitOptions.Force",
	"class-weights": "ClassWeights", "label-smoothing": "LabelSmoothing",
	"prior-precision": "Precision", "weight-decay": "WeightDecay", "tune-prior": "Tuned", "at": "Prior",
	"method": "Method.Name", "inducing": "Method.Inducing", "within": "Method.Within", "select": "Method.Select",
	"coverage": "PredictOptions.Coverage", "link": "PredictOptions.Link", "max-memory": "Limits.Memory", "with-inputs": "SaveOptions.Inputs", "without-inputs": "SaveOptions.WithoutInputs", "contrast": "ExplainOptions.Against", "top": "ExplainOptions.Top",
}

var flagName = regexp.MustCompile(`(?:gpexplain [a-z]+ )?--([a-z][a-z-]*)`)

// inGo puts names of this package in place of flags in a message.
func inGo(text string) string {
	return flagName.ReplaceAllStringFunc(text, func(flag string) string {
		_, name, _ := strings.Cut(flag, "--")
		if ours := goNames[name]; ours != "" {
			return ours
		}
		return flag
	})
}

// A callError is an error of a call of this package.
type callError struct{ err error }

func (e *callError) Error() string { return "funcgp: " + inGo(option.Word(e.err, option.Go)) }

func (e *callError) Unwrap() error { return e.err }

// Message is what it says, for the words of other readers.
func (e *callError) Message() option.Text { return option.Of(e.err) }

// named returns err, which may be nil, in the words of this package.
func named(err error) error {
	if err == nil || errors.Is(err, ErrClosed) {
		return err
	}
	return &callError{err}
}

// named returns err, which may be nil, in the words of who asked.
func (p *Posterior) named(err error) error {
	if p.job.Words == option.Flags {
		return err
	}
	return named(err)
}

// warningsInGo are warnings in the words of this package.
func warningsInGo(list []error) []error {
	out := make([]error, len(list))
	for i, err := range list {
		w := *job.Worded(err, option.Go)
		w.Text, w.Remedy = inGo(w.Text), inGo(w.Remedy)
		out[i] = &w
	}
	return out
}
