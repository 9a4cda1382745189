package inference

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/funcgp/funcgp/internal/problem"
)

// NewFlags returns the flags of a fit by a method, "" for exact, with so many inducing examples or rows
// left out within a part; 0 is the default of either. at is match, stated or a number, "" for match, and
// tune one of the ways to choose the precision, "" for none.
func NewFlags(method string, inducing int, within float64, selection, at, tune string) (*Flags, error) {
	s := &Flags{Method: method, Inducing: inducing, Within: within, Selection: selection, At: at, Tune: tune}
	if s.Method == "" {
		s.Method = "exact"
	}
	if s.At == "" {
		s.At = AtMatch
	}
	switch {
	case !slices.Contains(methods, s.Method):
		return nil, fmt.Errorf("there is no method %q; take one of %v", s.Method, methods)
	case inducing < 0 || inducing > 0 && !problem.IsSparse(s.Method) && s.Method != methodAuto:
		return nil, fmt.Errorf("%d inducing examples are not for the method %s", inducing, s.Method)
	case within < 0 || within > mostWithin || within > 0 && s.Method != "kept" && s.Method != "nystrom" && s.Method != methodAuto:
		return nil, fmt.Errorf("rows cannot be left out within %v by the method %s", within, s.Method)
	case selection != "" && !(slices.Contains(selections, selection) && problem.IsSparse(s.Method)):
		return nil, fmt.Errorf("there is no selection %q for the method %s; take one of %v with nystrom, fitc or subset", selection, s.Method, selections)
	case tune != "" && !slices.Contains(tunings, tune):
		return nil, fmt.Errorf("there is no way %q to choose the prior precision; take one of %v", tune, tunings)
	}
	if s.At != AtMatch && s.At != atStated {
		if v, err := strconv.ParseFloat(s.At, 64); err != nil || !(v >= 1e-300 && v <= 1e300) {
			return nil, fmt.Errorf("the precision %s must be a positive number", s.At)
		}
	}
	return s, nil
}
