package reproduce

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/funcgp/funcgp/internal/atomicfile"
)

// Results are the results of the steps of a study, one file each.
type Results struct {
	dir   string // of all files of the study
	study *Study
	plan  *Plan
	quick bool
}

// A record is the file of a step.
type record struct {
	Study   string          `json:"study"`
	Step    string          `json:"step"`
	Version int             `json:"version"`
	Quick   bool            `json:"quick"`
	Inputs  []string        `json:"inputs,omitempty"`
	Seconds float64         `json:"seconds"` // wall time that the step took
	Result  json.RawMessage `json:"result"`
}

func (r *Results) path(s *Step) string {
	return filepath.Join(r.dir, "steps", r.study.Name+"."+s.Key+".json")
}

// read returns the record of a step, nil where it is not done yet.
func (r *Results) read(s *Step) (*record, error) {
	path := r.path(s)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var have record
	if err := json.Unmarshal(text, &have); err != nil {
		return nil, fmt.Errorf("%s: damaged: %w; delete it, and the step is computed again", path, err)
	}
	if have.Study != r.study.Name || have.Step != s.Key {
		return nil, fmt.Errorf("%s: it holds step %s of study %s; delete it, and the step is computed again", path, have.Step, have.Study)
	}
	switch {
	case have.Quick != r.quick:
		return nil, fmt.Errorf("%s: it was made %s --quick; give another --out, or delete %s", path, map[bool]string{true: "with", false: "without"}[have.Quick], filepath.Dir(path))
	case have.Version != r.plan.Version:
		return nil, fmt.Errorf("%s: it is of version %d of the study, which is at version %d; give another --out, or delete %s", path, have.Version, r.plan.Version, filepath.Dir(path))
	case !slices.Equal(have.Inputs, s.Inputs):
		return nil, fmt.Errorf("%s: it was made from %s, and now there is %s; give the same --data or another --out, or delete the file",
			path, strings.Join(have.Inputs, ", "), strings.Join(s.Inputs, ", "))
	}
	return &have, nil
}

// write keeps the result of a step. A reader sees the whole file or none.
func (r *Results) write(s *Step, result any, seconds float64) error {
	text, err := json.Marshal(result)
	if err != nil {
		return fmt.Errorf("step %s of %s: its result cannot be kept: %w", s.Key, r.study.Name, err)
	}
	have := record{Study: r.study.Name, Step: s.Key, Version: r.plan.Version, Quick: r.quick, Inputs: s.Inputs, Seconds: seconds, Result: text}
	return atomicfile.Write(r.path(s), func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", " ")
		return e.Encode(have)
	})
}

// Get reads the result of the step with this key into v, a pointer to the type that
// the step returned.
func (r *Results) Get(key string, v any) error {
	i := slices.IndexFunc(r.plan.Steps, func(s Step) bool { return s.Key == key })
	if i < 0 {
		panic("reproduce: study " + r.study.Name + " has no step " + key)
	}
	have, err := r.read(&r.plan.Steps[i])
	switch {
	case err != nil:
		return err
	case have == nil:
		return fmt.Errorf("%s: the file of a step is gone; run the study again", r.path(&r.plan.Steps[i]))
	}
	if err := json.Unmarshal(have.Result, v); err != nil {
		return fmt.Errorf("%s: damaged: %w; delete it, and run the study again", r.path(&r.plan.Steps[i]), err)
	}
	return nil
}
