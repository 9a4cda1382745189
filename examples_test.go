package funcgp_test

import (
	"os"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp"
)

// Every method that a program may call has an example.
func TestExamplesOfMethods(t *testing.T) {
	text, err := os.ReadFile("example_test.go")
	require.NoError(t, err)
	for _, of := range []reflect.Type{reflect.TypeFor[*funcgp.Posterior](), reflect.TypeFor[*funcgp.Rows]()} {
		for m := range of.Methods() {
			require.Contains(t, string(text), "\nfunc Example"+of.Elem().Name()+"_"+m.Name+"() {\n")
		}
	}
}
