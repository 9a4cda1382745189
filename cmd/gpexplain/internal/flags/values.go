package flags

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"
)

// OptionalInt defines a flag whose integer is nil where it is not given.
func OptionalInt(c *cobra.Command, value **int, name string) {
	c.Flags().Var(optional[int]{value, func(text string) (int, error) {
		v, err := strconv.ParseInt(text, 0, strconv.IntSize)
		return int(v), err
	}}, name, help(name))
}

// OptionalFloat defines a flag whose number is nil where it is not given.
func OptionalFloat(c *cobra.Command, value **float64, name string) {
	c.Flags().Var(optional[float64]{value, func(text string) (float64, error) { return strconv.ParseFloat(text, 64) }}, name, help(name))
}

// optional is the value of a flag that is nil where it is not given.
type optional[T any] struct {
	to    **T
	parse func(text string) (T, error)
}

// Set implements pflag.Value.
func (o optional[T]) Set(text string) error {
	v, err := o.parse(text)
	*o.to = &v
	return err
}

// String implements pflag.Value.
func (o optional[T]) String() string {
	if o.to == nil || *o.to == nil {
		return ""
	}
	return fmt.Sprint(**o.to)
}

// Type implements pflag.Value.
func (o optional[T]) Type() string { return "func" }
