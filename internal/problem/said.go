package problem

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/inputfile"
	"github.com/funcgp/funcgp/internal/job"
)

// SavedFlagNames are the flags whose values the file of a posterior says. One that is given beside
// the file must agree with it.
var SavedFlagNames = []string{"outputs", "method", "inducing", "within", "certify", "select", "at", "refit", "tune-prior", "train-count", "train-index", "classes", "likelihood", "prior-precision", "weight-decay", "prior", "noise-variance",
	"standardize", "input-mean", "input-sd", "target-mean", "target-sd", "calibrate"}

// SavedFlags are the flags of the fit as the file of its posterior keeps them: those of the file
// that the problem was read from, where there is one.
func (p *Problem) SavedFlags(ctx context.Context) (map[string]string, error) {
	if p.Saved != nil {
		return p.Saved.Header.Flags, nil
	}
	out := map[string]string{}
	for name, text := range p.flags.texts {
		if name == "calibrate" {
			continue // a fit with other rows may change it
		}
		var err error
		if out[name], err = canonical(ctx, name, text); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// canonical is the value of a flag in one spelling: numbers of a list in their shortest, and the
// checksum of a file that says the prior or the scaling in place of its name.
func canonical(ctx context.Context, name, text string) (string, error) {
	scaled := slices.Contains(scalingNames[1:], name)
	if text != "" && (name == "prior" || scaled && strings.HasSuffix(strings.ToLower(text), ".json")) {
		return inputfile.Sum(ctx, text)
	}
	fields := strings.Split(text, ",")
	for i, field := range fields {
		fields[i] = strings.TrimSpace(field)
		if v, err := strconv.ParseFloat(fields[i], 64); err == nil {
			fields[i] = strconv.FormatFloat(v, 'g', -1, 64)
		}
	}
	return strings.Join(fields, ","), nil
}

// value is what the file says of a flag by what was fitted, whether the flag was given or not;
// "" where it says nothing.
func (h *SavedHeader) value(flag string) string {
	fit := &h.Fit
	switch flag {
	case "method":
		return fit.Method
	case "inducing":
		return strconv.Itoa(int(fit.Inducing))
	case "select":
		return h.Select
	case "at":
		if fit.Match != nil {
			return fit.Match.Used
		}
	case "refit":
		return strconv.FormatBool(!h.Network)
	case "classes":
		if h.ClassNames != nil {
			return JoinNames(h.ClassNames)
		}
		return FormatInts(h.Classes)
	case "likelihood":
		return h.Likelihood
	case "prior-precision":
		return strconv.FormatFloat(float64(fit.PriorPrecision), 'g', -1, 64)
	case "noise-variance":
		if fit.NoiseVariance != nil {
			return strconv.FormatFloat(float64(*fit.NoiseVariance), 'g', -1, 64)
		}
	case "standardize":
		if h.Scaling.Inputs == "" && h.Scaling.Targets == "" {
			return "no"
		}
	case "calibrate":
		if fit.Calibration != nil {
			return fit.Calibration.Method
		}
		return "none"
	}
	return ""
}

// agree refuses flags that say other than the file, and drops those that say the same. The
// training rows are compared when the data are read, by agreeRows; --calibrate none leaves out
// what the file has, and the calibration of parts is that of their merger.
func (v *SavedFile) agree(ctx context.Context, f *Flags, kind FileKind) error {
	for _, name := range SavedFlagNames {
		text := f.texts[name]
		if f.given == nil || !f.given(name) || name == "train-count" || name == "train-index" || name == "calibrate" && (text == "none" || kind != PosteriorFile) {
			continue
		}
		typed, err := canonical(ctx, name, text)
		if err != nil {
			return err
		}
		said, err := canonical(ctx, "", v.Header.value(name))
		if err != nil {
			return err
		}
		if kept, ok := v.Header.Flags[name]; typed != said && (!ok || typed != kept) {
			return v.differs(name, text, said)
		}
	}
	f.Task, f.Scaling, f.Outputs = TaskFlags{}, ScalingFlags{Standardize: "auto"}, OutputFlags{}
	f.Data.ClassText, f.Data.classList = "", nil
	return nil
}

// agreeRows refuses flags that name other training rows than those of the file. Of a file with
// the training rows inside there are no others, among which they would be the first.
func (v *SavedFile) agreeRows(ctx context.Context, f *DataFlags, t *Task, d *dataset.Data, train *dataset.Subset) error {
	said := "its " + job.Count(train.Len()) + " training rows"
	if f.RowsFile != "" {
		if rows, err := dataset.ReadRows(ctx, f.RowsFile); err != nil || slices.Equal(rows, train.Rows) {
			return err
		}
		return v.differs("train-index", f.RowsFile, said)
	}
	if f.Count == 0 || v.Header.Inputs && v.Header.Flags["train-count"] == strconv.Itoa(f.Count) {
		return nil
	}
	if first, err := d.Train.Select(&dataset.SelectOptions{Classes: t.Classes, Count: f.Count}); err == nil && !v.Header.Inputs && slices.Equal(first.Rows, train.Rows) {
		return nil
	}
	return v.differs("train-count", strconv.Itoa(f.Count), said)
}

// differs is the error of a flag that says other than the file, "" where that has no words.
func (v *SavedFile) differs(flag, text, said string) error {
	if said != "" {
		said = ", which says " + said
	}
	return job.FullErrorf("%s: --%s %s is not what it was fitted with%s; leave the flag out, or fit another posterior", v.path, flag, job.Cut(text, 60), said)
}
