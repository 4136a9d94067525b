package kit_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"svc/ui/kit"
)

func TestCSV(t *testing.T) {
	for cell, want := range map[string]string{
		"Ada Lind":         `"Ada Lind"`,
		`the "one"`:        `"the ""one"""`,
		"=1+1":             `"'=1+1"`,
		"+49 30":           `"'+49 30"`,
		"-1":               `"'-1"`,
		"@SUM(A1)":         `"'@SUM(A1)"`,
		" =1":              `"' =1"`,
		"＝1":               `"'＝1"`,
		"a,=1":             `"a,'=1"`,
		"a\n=1":            "\"a\n'=1\"",
		"ada@acme.example": `"ada@acme.example"`,
	} {
		require.Equal(t, want+"\r\n", kit.CSV(cell), cell)
	}
	require.Equal(t, "\"a\",\"\"\r\n", kit.CSV("a", ""))
}
