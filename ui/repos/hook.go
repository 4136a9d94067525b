package repos

import (
	"svc/ui/client"
	"svc/ui/page"
)

// setHook sets up where the code host tells of changes. Unless the host has it then, its secret is shown this once.
func setHook(v *page.Visit) (page.Notice, error) {
	made, err := client.Decode[client.NewHook](v.API.SetRepoHook(v.Context(), v.PathValue("id"), nil))
	if r := refusal(err); r != nil {
		return page.Notice{}, r
	}
	v.Result = &made
	if err != nil || !made.AtHost {
		return page.Notice{}, err
	}
	return page.Notice{Text: "The code host tells of changes at once."}, nil
}

// deliveryWord says what became of a delivery.
func deliveryWord(accepted bool) string {
	if accepted {
		return "accepted"
	}
	return "refused: its signature is wrong"
}
