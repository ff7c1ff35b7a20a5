// The language of a document's text, by its commonest words. Pure; knows the languages that starters.js asks in.

/** Words that texts of a language are full of, without those that are as common in a language near it. */
const COMMON = Object.entries({
  en: "the and for that with are this not from must which or be it of to who how",
  de: "der die das und ist nicht mit von zu den dem ein eine für auf im wird werden sich bei oder des als bis aus wie nach",
  nl: "het een van voor met niet zijn wordt worden naar dat die op te bij ook door deze uit of er tot",
  fr: "les des et est une du pour dans qui sur pas au aux par avec ce cette sont il",
  es: "el los las del y con una es por su al lo como más está son cada",
}).map(([code, words]) => [code, new Set(words.split(" "))]);
const LEAST_SHARE = 0.08; // of a text's words; texts of other languages have fewer of any of them
const LOOKED_AT = 20_000; // code units

/** `en`, `de`, …; null for a text in none of them, or in none for sure. */
export function languageOf(text) {
  const words = text.slice(0, LOOKED_AT).normalize("NFC").toLowerCase().match(/\p{L}+/gu) ?? [];
  const [[most, code], [second]] = COMMON
    .map(([name, own]) => [words.filter((word) => own.has(word)).length, name]).sort(([one], [other]) => other - one);
  return most >= LEAST_SHARE * words.length && most > 1.5 * second ? code : null;
}
