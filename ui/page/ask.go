package page

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/a-h/templ"
)

// A Question asks for confirmation of an action that cannot be undone, or that gives or takes rights. With scripts, app.js asks it in
// a dialog, from [Question.Attributes]; without scripts, the app shows it as a page before
// it does what the form says.
type Question struct {
	Title string // "Cancel run #411?"
	Text  string // the consequences
	Yes   string // the button that does it: "Cancel run #411"
	No    string // the button that does not: "Keep it running"
	Plain bool   // Yes is not red, as nothing is lost
	Word  string // the word that the person has to type; "" for none
	Field string // the form field that the question depends on; "" for none
	Value string // the value of Field that needs confirmation
	Back  string // where No leads without scripts; "" for the page of the route
}

// Attributes returns the attributes of the form, button or switch that needs confirmation.
func (q Question) Attributes() templ.OrderedAttributes {
	list := templ.OrderedAttributes{
		{Key: "hx-confirm", Value: q.Title}, {Key: "data-confirm-text", Value: q.Text},
		{Key: "data-confirm-yes", Value: q.Yes}, {Key: "data-confirm-no", Value: q.No},
	}
	if q.Plain {
		list = append(list, templ.KeyValue[string, any]{Key: "data-confirm-plain", Value: true})
	}
	if q.Field != "" {
		list = append(list, templ.KeyValue[string, any]{Key: "data-confirm-field", Value: q.Field},
			templ.KeyValue[string, any]{Key: "data-confirm-for", Value: q.Value})
	}
	if q.Word != "" {
		list = append(list, templ.KeyValue[string, any]{Key: "data-confirm-word", Value: q.Word})
	}
	return list
}

const confirmedField, wordField = "confirmed", "word"

// concerns reports whether the posted form needs confirmation.
func (q Question) concerns(v *Visit) bool {
	return q.Title != "" && (q.Field == "" || v.PostFormValue(q.Field) == q.Value)
}

// ask asks for confirmation of a form that was sent without scripts. done is true if it
// wrote the answer.
func (a *App) ask(w http.ResponseWriter, v *Visit, route Route) (done bool) {
	if route.Ask == nil || v.FromHTMX() {
		return false
	}
	q, err := route.Ask(v)
	if err != nil {
		a.refuse(w, v, err)
		return true
	}
	if !q.concerns(v) {
		return false
	}
	confirmed := v.PostFormValue(confirmedField) != ""
	if confirmed && v.PostFormValue(wordField) == q.Word {
		return false
	}
	if confirmed {
		v.notice = Notice{Text: "That is not " + q.Word + ".", Bad: true}
	}
	a.write(w, v, Page{Title: q.Title, Main: askPage(v, q, cmp.Or(q.Back, v.backAddress(route)))})
	return true
}

// A formField is a field of a form with one of its values.
type formField struct{ name, value string }

// formFields returns the fields of the posted form, without those of the question itself.
func (v *Visit) formFields() (list []formField) {
	for name, values := range v.PostForm {
		for _, value := range values {
			if name != confirmedField && name != wordField && name != madeForField {
				list = append(list, formField{name, value})
			}
		}
	}
	return list
}

// backAddress returns the address of the page that a POST belongs to. Placeholders of
// route.Back such as {id} take the path's values.
func (v *Visit) backAddress(route Route) string {
	if v.Slug() == "" {
		return route.Back
	}
	parts := strings.Split(route.Back, "/")
	for i, part := range parts {
		if name, ok := strings.CutPrefix(part, "{"); ok {
			parts[i] = v.PathValue(strings.TrimSuffix(name, "}"))
		}
	}
	return v.Action(parts...)
}

// Find reads a list page by page and returns the first item for which match is true; ok is
// false if there is none.
func Find[T any](list func(offset int64) (items []T, total int64, err error), match func(T) bool) (found T, ok bool, err error) {
	for offset := int64(0); ; {
		items, total, err := list(offset)
		if err != nil {
			return found, false, err
		}
		if i := slices.IndexFunc(items, match); i >= 0 {
			return items[i], true, nil
		}
		if offset += int64(len(items)); len(items) == 0 || offset >= total {
			return found, false, nil
		}
	}
}
