package explain

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestShowText(t *testing.T) {
	for _, p := range []*Page{
		newDemo(1, 200, 9, 4, 9).page(t, 9, &Options{Similar: 8}),
		newDemo(2, 200, 4, 4, 9).page(t, 9, &Options{Similar: 8}),
		newDemo(3, 100, 3, 0, 3, 5, 8).page(t, 3, &Options{Similar: 8, Targets: []Target{Single(0), Single(1), Single(2), Single(3), Contrast(1, 3)}}),
	} {
		var b bytes.Buffer
		require.NoError(t, p.WriteText(&b, 0))
		fmt.Println(b.String())
	}
}
