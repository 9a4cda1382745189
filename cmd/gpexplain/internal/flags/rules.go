package flags

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/option"
)

// A Rule is what the values of some flags must satisfy. It changes none of them.
type Rule func(f *pflag.FlagSet) error

// Check returns the error of the first rule that does not hold.
func Check(f *pflag.FlagSet, rules []Rule) error {
	for _, rule := range rules {
		if err := rule(f); err != nil {
			return err
		}
	}
	return nil
}

// Needed is for a flag that must be given a value, which why explains.
func Needed(flag, why string) Rule {
	return func(f *pflag.FlagSet) error {
		if x := f.Lookup(flag); x.Value.String() == "" {
			of, _ := pflag.UnquoteUsage(x)
			return job.Usagef("%v %s is needed: %s", dashed(x), of, why)
		}
		return nil
	}
}

// AtLeast is for whole numbers that are not below a bound.
func AtLeast(least int, names ...string) Rule {
	return each(names, func(_ *pflag.FlagSet, x *pflag.Flag) error {
		if v, err := strconv.Atoi(x.Value.String()); err != nil || v < least {
			return job.Usagef("%v must be at least %d", option.Set(x.Name, x.Value), least)
		}
		return nil
	})
}

// Between is for numbers above lo, or equal to it where closed is true, and below hi.
func Between(lo, hi float64, closed bool, names ...string) Rule {
	return each(names, func(_ *pflag.FlagSet, x *pflag.Flag) error {
		v, err := strconv.ParseFloat(x.Value.String(), 64)
		if err != nil || !(v > lo && v < hi || closed && v == lo) {
			return job.Usagef("%v must be %s %v and below %v", option.Set(x.Name, x.Value), map[bool]string{true: "at least", false: "above"}[closed], lo, hi)
		}
		return nil
	})
}

// OneOf is for a flag whose value is one of a list, by default that of the table of options, or empty where that is the
// default.
func OneOf(flag string, values ...string) Rule {
	if values == nil {
		values = option.Values(flag)
	}
	return func(f *pflag.FlagSet) error {
		if x := f.Lookup(flag); x != nil && x.Value.String() != x.DefValue && !slices.Contains(values, x.Value.String()) {
			return job.NotOneOf(flag, x.Value.String(), values)
		}
		return nil
	}
}

// Apart is for flags that exclude each other. why says why, from its punctuation on; it may be "".
func Apart(why option.Text, names ...string) Rule {
	return func(f *pflag.FlagSet) error {
		given := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !is(f, name) })
		if len(given) > 1 {
			return job.Usagef("%v and %v exclude each other%v", option.Named(given[0]), option.Named(given[1]), why)
		}
		return nil
	}
}

// For is for flags that mean something under a condition alone: one of other flags is given, A B, or has one of some
// values, A=x|y. why says why, from its punctuation on; it may be "".
func For(condition string, why option.Text, names ...string) Rule {
	return each(names, func(f *pflag.FlagSet, x *pflag.Flag) error {
		if holds(f, condition) {
			return nil
		}
		not := ""
		if name, _, ok := strings.Cut(condition, "="); ok && !strings.Contains(condition, " ") {
			not = ", not " + f.Lookup(name).Value.String()
		}
		return job.Usagef("%v is for %v%s%v", option.Named(x.Name), says(condition), not, why)
	})
}

// Not is for flags that mean nothing under a condition, as of For.
func Not(condition string, why option.Text, names ...string) Rule {
	return each(names, func(f *pflag.FlagSet, x *pflag.Flag) error {
		if !holds(f, condition) {
			return nil
		}
		return job.Usagef("%v is not for %v%v", option.Named(x.Name), says(condition), why)
	})
}

// Refuse is for what cannot be where each of some conditions holds, as of For, or with a ! before it does not. A flag
// that there is not does neither. In the text, <name> is the value of a flag.
func Refuse(text option.Text, conditions ...string) Rule {
	return func(f *pflag.FlagSet) error {
		for _, one := range conditions {
			not, ok := strings.CutPrefix(one, "!")
			name, _, _ := strings.Cut(not, "=")
			if f.Lookup(name) == nil || holds(f, not) == ok {
				return nil
			}
		}
		return job.Usagef("%v", option.Text(regexp.MustCompile("<[a-z-]+>").ReplaceAllStringFunc(string(text), func(name string) string {
			return string(option.Plain(f.Lookup(strings.Trim(name, "<>")).Value.String()))
		})))
	}
}

// Needs is for a flag that takes another, which why explains.
func Needs(flag, other string, why option.Text) Rule {
	return func(f *pflag.FlagSet) error {
		if x := f.Lookup(other); is(f, flag) && x.Value.String() == "" {
			of, _ := pflag.UnquoteUsage(x)
			return job.Usagef("%v needs %v %s%v", option.Named(flag), dashed(x), of, why)
		}
		return nil
	}
}

// each looks at flags that are given.
func each(names []string, look func(f *pflag.FlagSet, x *pflag.Flag) error) Rule {
	return func(f *pflag.FlagSet) error {
		for _, name := range names {
			if x := f.Lookup(name); x != nil && x.Changed {
				if err := look(f, x); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

// is tells whether a flag is given, and does not say no.
func is(f *pflag.FlagSet, name string) bool {
	x := f.Lookup(name)
	return x != nil && x.Changed && !slices.Contains([]string{"", "false", "0"}, x.Value.String())
}

// holds tells whether one of some conditions holds.
func holds(f *pflag.FlagSet, condition string) bool {
	return slices.ContainsFunc(strings.Fields(condition), func(one string) bool {
		name, values, ok := strings.Cut(one, "=")
		if !ok {
			return is(f, name)
		}
		x := f.Lookup(name)
		return x != nil && slices.Contains(strings.Split(values, "|"), x.Value.String())
	})
}

// says writes a condition out: --a, --b x or y.
func says(condition string) option.Text {
	var list []option.Text
	for _, one := range strings.Fields(condition) {
		name, values, valued := strings.Cut(one, "=")
		text := option.Named(name)
		if several := strings.Split(values, "|"); len(several) > 1 {
			text += " " + or(several)
		} else if valued {
			text = option.Set(name, values)
		}
		list = append(list, text)
	}
	return or(list)
}

// or lists what one of is meant.
func or[T ~string](list []T) option.Text {
	last := len(list) - 1
	if last == 0 {
		return option.Text(list[0])
	}
	var first []option.Text
	for _, one := range list[:last] {
		first = append(first, option.Text(one))
	}
	return option.Join(first, ", ") + " or " + option.Text(list[last])
}

// dashed is a flag as the help writes it first: -o, --top.
func dashed(x *pflag.Flag) option.Text {
	if x.Shorthand != "" {
		return option.Text("-" + x.Shorthand)
	}
	return option.Named(x.Name)
}
