package funcgp

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/inputfile"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/option"
)

// A setting is an option whose value is recorded in the file of a posterior. If the option is given together
// with the file, both values must agree.
type setting struct {
	flag   string
	asked  func(s *asked) string       // the value among the options, as a command line writes it; "" where it is not given
	fitted func(h *savedHeader) string // what was fitted, whether the flag was given or not; nil or "" where that says nothing
	named  bool                        // a file that it names counts by its checksum
}

// settings are compared in this order.
var settings = []setting{
	{flag: "outputs", asked: func(s *asked) string { return s.Fit.Outputs }},
	{flag: "method", asked: func(s *asked) string { return s.Fit.Method.Name }, fitted: func(h *savedHeader) string { return h.Fit.Method }},
	{flag: "inducing", asked: func(s *asked) string { return unlessZero(float64(s.Fit.Method.Inducing)) },
		fitted: func(h *savedHeader) string { return strconv.Itoa(int(h.Fit.Inducing)) }},
	{flag: "within", asked: func(s *asked) string { return unlessZero(s.Fit.Method.Within) }},
	{flag: "certify", asked: func(s *asked) string { return ifTrue(s.Fit.Method.Certify) }},
	{flag: "select", asked: func(s *asked) string { return s.Fit.Method.Select }, fitted: func(h *savedHeader) string { return h.Select }},
	{flag: "at", asked: func(s *asked) string { return s.Fit.Prior.At }, fitted: func(h *savedHeader) string {
		if h.Fit.Match == nil {
			return ""
		}
		return h.Fit.Match.Used
	}},
	{flag: "refit", asked: func(s *asked) string { return ifTrue(s.Fit.Refit) },
		fitted: func(h *savedHeader) string { return strconv.FormatBool(!h.Network) }},
	{flag: "inference", asked: func(s *asked) string { return s.Fit.Inference },
		fitted: func(h *savedHeader) string { return cmp.Or(h.Fit.Inference, laplace) }},
	{flag: "tune-prior", asked: func(s *asked) string { return s.Fit.Prior.Tune }},
	{flag: "train-count", asked: func(s *asked) string { return unlessZero(float64(s.Data.TrainCount)) }}, // these two by agreeRows
	{flag: "train-index", asked: func(s *asked) string { return s.Data.TrainFile }},
	{flag: "classes", asked: func(s *asked) string { return job.JoinNames(s.Data.Classes) }, fitted: func(h *savedHeader) string {
		if h.ClassNames != nil {
			return job.JoinNames(h.ClassNames)
		}
		return formatInts(h.Classes)
	}},
	{flag: "likelihood", asked: func(s *asked) string { return s.Fit.Likelihood }, fitted: func(h *savedHeader) string { return h.Likelihood }},
	{flag: "prior-precision", asked: func(s *asked) string { return unlessNil(s.Fit.Prior.Precision) },
		fitted: func(h *savedHeader) string { return shortest(float64(h.Fit.PriorPrecision)) }},
	{flag: "weight-decay", asked: func(s *asked) string { return unlessNil(s.Fit.Prior.WeightDecay) }},
	{flag: "label-smoothing", asked: func(s *asked) string { return unlessNil(s.Fit.LabelSmoothing) },
		fitted: func(h *savedHeader) string { return shortest(h.Smoothing) }},
	{flag: "class-weights", asked: func(s *asked) string { return s.Fit.ClassWeights }, fitted: func(h *savedHeader) string { return h.ClassWeights.String() }},
	{flag: "prior", asked: func(s *asked) string { return s.Fit.Prior.File }, named: true},
	{flag: "noise-variance", asked: func(s *asked) string { return unlessNil(s.Fit.NoiseVariance) }, fitted: func(h *savedHeader) string {
		if h.Fit.NoiseVariance == nil {
			return ""
		}
		return shortest(float64(*h.Fit.NoiseVariance))
	}},
	{flag: "standardize", asked: func(s *asked) string { return s.Fit.Standardize }, fitted: func(h *savedHeader) string {
		return map[bool]string{true: "no"}[h.Scaling.Inputs == "" && h.Scaling.Targets == ""]
	}},
	{flag: "input-mean", asked: func(s *asked) string { return s.Fit.InputMean.text() }, named: true},
	{flag: "input-sd", asked: func(s *asked) string { return s.Fit.InputSD.text() }, named: true},
	{flag: "target-mean", asked: func(s *asked) string { return s.Fit.TargetMean.text() }, named: true},
	{flag: "target-sd", asked: func(s *asked) string { return s.Fit.TargetSD.text() }, named: true},
	{flag: "calibrate", asked: func(s *asked) string { return s.Fit.Calibrate }, fitted: func(h *savedHeader) string {
		if h.Fit.Calibration == nil {
			return "none"
		}
		return h.Fit.Calibration.Method
	}},
}

// unlessZero formats a number for which 0 stands for the default.
func unlessZero(v float64) string {
	if v == 0 {
		return ""
	}
	return shortest(v)
}

// unlessNil formats a number that may be missing.
func unlessNil(v *float64) string {
	if v == nil {
		return ""
	}
	return shortest(*v)
}

// ifTrue formats a switch that is off by default.
func ifTrue(v bool) string {
	if v {
		return "true"
	}
	return ""
}

// shortest formats a number in its shortest spelling.
func shortest(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// SavedFlags returns the options of the fit by name, as the file of its posterior records them. Where the
// problem was opened from such a file, they are the values in that file.
func (p *problem) SavedFlags(ctx context.Context) (map[string]string, error) {
	if p.Saved != nil {
		return p.Saved.Header.Flags, nil
	}
	out := map[string]string{}
	for _, s := range settings {
		text := s.asked(p.asked)
		if text == "" || s.flag == "calibrate" { // which a fit with other rows may change
			continue
		}
		var err error
		if out[s.flag], err = s.canonical(ctx, text); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// canonical returns the value of an option in one spelling. Numbers of a list are in their shortest form, and
// the file of a prior or scaling is replaced by its checksum.
func (s *setting) canonical(ctx context.Context, text string) (string, error) {
	if text != "" && s.named && (s.flag == "prior" || isJSON(text)) {
		return inputfile.Sum(ctx, text)
	}
	if s.flag == "class-weights" {
		w, err := parseClassWeights(text)
		return w.String(), err
	}
	fields := strings.Split(text, ",")
	for i, field := range fields {
		fields[i] = strings.TrimSpace(field)
		if v, err := strconv.ParseFloat(fields[i], 64); err == nil {
			fields[i] = shortest(v)
		}
	}
	return strings.Join(fields, ","), nil
}

// agree returns an error for options that disagree with the file, and drops options that agree. agreeRows
// compares the training rows later, when the data are read. Calibrate none may drop the calibration in the
// file, and parts are calibrated when they are merged.
func (v *savedFile) agree(ctx context.Context, f *asked, kind fileKind) error {
	for _, s := range settings {
		text := s.asked(f)
		if text == "" || s.flag == "train-count" || s.flag == "train-index" || s.flag == "calibrate" && (text == "none" || text == "skip" || kind != posteriorKind) {
			continue
		}
		typed, err := s.canonical(ctx, text)
		if err != nil {
			return err
		}
		said := ""
		if s.fitted != nil {
			plain := setting{flag: s.flag}
			if said, err = plain.canonical(ctx, s.fitted(&v.Header)); err != nil {
				return err
			}
		}
		kept, ok := v.Header.Flags[s.flag]
		if !ok && v.Header.Flags != nil {
			kept = option.Find(s.flag).Default
		}
		if typed != said && (typed != kept || kept == "") {
			return v.differs(s.flag, text, said)
		}
	}
	o := &f.Fit
	f.Fit = FitOptions{Limits: o.Limits, Seed: o.Seed, Force: o.Force}
	f.Data.Classes = nil
	return nil
}

// agreeRows returns an error for options that choose other training rows than those in the file. A file with
// the training rows inside has no other rows among which options could choose.
func (v *savedFile) agreeRows(ctx context.Context, f *Data, t *problemTask, d *dataset.Data, train *dataset.Rows) error {
	said := "its " + job.Count(train.Len()) + " training rows"
	if f.TrainFile != "" {
		if rows, err := dataset.ReadRows(ctx, f.TrainFile); err != nil || slices.Equal(rows, train.Index) {
			return err
		}
		return v.differs("train-index", f.TrainFile, said)
	}
	if f.TrainCount == 0 || v.Header.Inputs && v.Header.Flags["train-count"] == strconv.Itoa(f.TrainCount) {
		return nil
	}
	if first, err := d.Train.Select(t.Classes, f.TrainCount); err == nil && !v.Header.Inputs && slices.Equal(first.Index, train.Index) {
		return nil
	}
	return v.differs("train-count", strconv.Itoa(f.TrainCount), said)
}

// differs returns the error of an option that disagrees with the file. said is the file's value, or "" if it
// has no words for it.
func (v *savedFile) differs(flag, text, said string) error {
	if said != "" {
		said = ", which says " + said
	}
	return job.FullErrorf("%s: %s is not what it was fitted with%s; leave it out, or fit another posterior", v.path, option.Set(flag, job.Cut(text, 60)), said)
}
