package novelty

import (
	"context"
	"fmt"
	"os"
	"maps"
	"slices"
	"testing"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/studies/steps"
)

func TestExplore(t *testing.T) {
	for _, c := range cases {
		if w := os.Getenv("CASES"); w != "" && w != c.name {
			continue
		}
		tab, err := steps.Do(t.Context(), "/tmp/novelty-cache", c.name, func(ctx context.Context) (*table2, error) {
			p, err := c.make(ctx, source{"/work/shared/reference", "/work/shared/data"})
			if err != nil {
				return nil, err
			}
			return explore(ctx, p, .01)
		})
		if err != nil {
			t.Fatal(c.name, err)
		}
		fmt.Println(c.name)
		names := slices.Sorted(maps.Keys(tab.Others))
		fmt.Printf("%-14s", "")
		for _, o := range names {
			fmt.Printf("%10.10s", o)
		}
		fmt.Printf("%10s\n", "test>train")
		for _, k := range slices.Sorted(maps.Keys(tab.Test)) {
			fmt.Printf("%-14s", k)
			for _, o := range names {
				fmt.Printf("%10.3f", glm.AUROC(tab.Test[k], tab.Others[o][k]))
			}
			fmt.Printf("%10.3f\n", glm.AUROC(tab.Train[k], tab.Test[k]))
		}
	}
}
