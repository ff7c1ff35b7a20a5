// What the service itself says, in the page's languages: titles of its errors, why it refused something or could not
// read a file. A text's name is the English one; {words} in braces are parts that the service fills in.

export default {
  "Bad Request": ["Das ging nicht", "Dat lukte niet"],
  "Forbidden": ["Dazu fehlt Ihnen das Recht", "Daarvoor hebt u geen rechten"],
  "Not Found": ["Nicht gefunden", "Niet gevonden"],
  "Conflict": ["Das geht im Moment nicht", "Dat kan op dit moment niet"],
  "Request Timeout": ["Es dauerte zu lange", "Het duurde te lang"],
  "Request Entity Too Large": ["Das ist zu groß", "Dat is te groot"],
  "Content Too Large": ["Das ist zu groß", "Dat is te groot"],
  "Unprocessable Entity": ["Die Anfrage ist ungültig", "Het verzoek is ongeldig"],
  "Unprocessable Content": ["Die Anfrage ist ungültig", "Het verzoek is ongeldig"],
  "Too Many Requests": ["Zu viele Anfragen", "Te veel verzoeken"],
  "Internal Server Error": ["Der Dienst hat einen Fehler", "De dienst heeft een fout"],
  "Bad Gateway": ["Der Modellserver antwortet nicht richtig", "De modelserver antwoordt niet goed"],
  "Service Unavailable": ["Der Dienst ist gerade nicht bereit", "De dienst is nu niet klaar"],
  "Insufficient Storage": ["Der Speicher ist voll", "De opslag is vol"],

  "No worker is ready, so the request was not accepted. If the service has just been started, its worker is still loading the model: send the request again in a minute. Else start a worker with `rag worker`, or everything with `rag up`.": [
    "Kein Worker ist bereit, daher wurde die Anfrage nicht angenommen. Wurde der Dienst gerade erst gestartet, lädt sein Worker noch das Modell: Versuchen Sie es in einer Minute noch einmal. Sonst starten Sie einen Worker mit `rag worker`, oder alles mit `rag up`.",
    "Er is geen worker klaar, dus het verzoek werd niet aangenomen. Is de dienst net gestart, dan laadt de worker het model nog: probeer het over een minuut opnieuw. Start anders een worker met `rag worker`, of alles met `rag up`."],
  "Redis does not answer, so the service changed nothing. Try again shortly. If the error stays, check that Redis runs and that RAG_REDIS_URL points to it; `rag doctor` shows both.": [
    "Redis antwortet nicht, daher hat der Dienst nichts geändert. Versuchen Sie es gleich noch einmal. Bleibt der Fehler, prüfen Sie, ob Redis läuft und RAG_REDIS_URL darauf zeigt; `rag doctor` zeigt beides.",
    "Redis antwoordt niet, dus de dienst heeft niets gewijzigd. Probeer het zo opnieuw. Blijft de fout, controleer dan of Redis draait en RAG_REDIS_URL ernaar wijst; `rag doctor` toont beide."],
  "The database of the collections cannot be used, so the service changed nothing. Try again shortly. If the error stays, the service's log and `rag doctor` say what to check.": [
    "Die Datenbank der Sammlungen ist nicht zu benutzen, daher hat der Dienst nichts geändert. Versuchen Sie es gleich noch einmal. Bleibt der Fehler, sagen das Protokoll des Dienstes und `rag doctor`, was zu prüfen ist.",
    "De database van de verzamelingen is niet te gebruiken, dus de dienst heeft niets gewijzigd. Probeer het zo opnieuw. Blijft de fout, dan zeggen het logboek van de dienst en `rag doctor` wat te controleren is."],
  "The disk of the service is full, so the request was not stored. Free space in the data folder (RAG_DATA_DIR), then send the request again.": [
    "Die Festplatte des Dienstes ist voll, daher wurde nichts gespeichert. Schaffen Sie Platz im Datenordner (RAG_DATA_DIR) und versuchen Sie es dann noch einmal.",
    "De schijf van de dienst is vol, dus er werd niets opgeslagen. Maak ruimte in de datamap (RAG_DATA_DIR) en probeer het daarna opnieuw."],
  "This request needs the role {role}, and your key has the role {own}. Use another key; `rag keys create NAME --role {role}` creates one.": [
    "Dazu ist die Rolle {role} nötig; Ihr Schlüssel hat die Rolle {own}. Verwenden Sie einen anderen; `rag keys create NAME --role {role}` legt einen an.",
    "Hiervoor is de rol {role} nodig; uw sleutel heeft de rol {own}. Gebruik een andere; `rag keys create NAME --role {role}` maakt er een."],
  "The file of this document is not kept: it came as text, or RAG_KEEP_ORIGINALS was off when it was uploaded. Upload it again with the setting on.": [
    "Die Datei dieses Dokuments wird nicht aufbewahrt: Es kam als Text, oder RAG_KEEP_ORIGINALS war aus, als sie hochgeladen wurde. Laden Sie sie mit dieser Einstellung noch einmal hoch.",
    "Het bestand van dit document wordt niet bewaard: het kwam als tekst, of RAG_KEEP_ORIGINALS stond uit toen het werd geüpload. Upload het opnieuw met die instelling aan."],
  "This is the key that you sent. Revoke it with another key, or send `?self=true` to lock it out.": [
    "Das ist der Schlüssel, mit dem Sie angemeldet sind. Widerrufen Sie ihn mit einem anderen.",
    "Dit is de sleutel waarmee u bent aangemeld. Trek hem in met een andere."],
  "There is no answer {answer}. It was erased, has expired, or never existed. GET /v1/sessions/ID lists the answers of a session.": [
    "Die Antwort {answer} gibt es nicht. Sie wurde gelöscht, ist abgelaufen, oder es gab sie nie.",
    "Het antwoord {answer} is er niet. Het werd gewist, is verlopen, of bestond nooit."],
  "There is no session {session}. It was erased, has expired, or never existed. GET /v1/sessions lists all sessions.": [
    "Das Gespräch {session} gibt es nicht. Es wurde gelöscht, ist abgelaufen, oder es gab es nie.",
    "Het gesprek {session} is er niet. Het werd gewist, is verlopen, of bestond nooit."],

  "Not ready. {checks}": [
    "Der Dienst ist noch nicht bereit; nach dem Start lädt er erst das Modell. ({checks})",
    "De dienst is nog niet klaar; na het starten laadt hij eerst het model. ({checks})"],

  "the file is empty": ["Die Datei ist leer", "Het bestand is leeg"],
  "no text found in the file": ["In der Datei ist kein Text", "Er staat geen tekst in het bestand"],
  "the text is empty": ["Der Text ist leer", "De tekst is leeg"],
  "there are no words besides front matter, comments and marks": [
    "Außer Kopfdaten, Kommentaren und Zeichen stehen keine Wörter darin",
    "Er staan geen woorden in, alleen kopgegevens, opmerkingen en tekens"],
  "{ending} is not supported; save the file as {newer}": [
    "{ending} wird nicht unterstützt; speichern Sie die Datei als {newer}",
    "{ending} wordt niet ondersteund; sla het bestand op als {newer}"],
  "{ending} is not supported; supported formats: {formats}": [
    "{ending} wird nicht unterstützt; unterstützte Formate: {formats}",
    "{ending} wordt niet ondersteund; ondersteunde formaten: {formats}"],
  "the file has {size} MB, more than the {most} MB allowed; split it": [
    "Die Datei hat {size} MB, mehr als die erlaubten {most} MB; teilen Sie sie",
    "Het bestand is {size} MB, meer dan de toegestane {most} MB; splits het"],
  "the content is a {kind} file, not {wanted}; give it the ending of its real format": [
    "Der Inhalt ist {kind}, nicht {wanted}; geben Sie der Datei die Endung ihres wirklichen Formats",
    "De inhoud is {kind}, niet {wanted}; geef het bestand de extensie van zijn echte formaat"],
  "the content is a {kind} file; give it that ending": [
    "Der Inhalt ist eine Datei vom Typ {kind}; geben Sie ihr diese Endung",
    "De inhoud is een bestand van het type {kind}; geef het die extensie"],
  "the content is binary, not text; convert it to a supported format first": [
    "Der Inhalt ist kein Text; wandeln Sie die Datei erst in ein unterstütztes Format um",
    "De inhoud is geen tekst; zet het bestand eerst om in een ondersteund formaat"],
  "the content is not a PDF; get the file anew if it is damaged, or give it the ending of its real format": [
    "Der Inhalt ist kein PDF; besorgen Sie die Datei neu, falls sie beschädigt ist, oder geben Sie ihr die Endung ihres wirklichen Formats",
    "De inhoud is geen pdf; haal het bestand opnieuw op als het beschadigd is, of geef het de extensie van zijn echte formaat"],
  "the PDF is protected by a password; save it without one": [
    "Das PDF ist durch ein Passwort geschützt; speichern Sie es ohne",
    "De pdf is met een wachtwoord beveiligd; sla hem op zonder"],
  "the PDF is damaged and cannot be opened; export it again": [
    "Das PDF ist beschädigt und lässt sich nicht öffnen; exportieren Sie es neu",
    "De pdf is beschadigd en kan niet worden geopend; exporteer hem opnieuw"],
  "the PDF is damaged: none of its pages can be read; export it again": [
    "Das PDF ist beschädigt: Keine seiner Seiten lässt sich lesen; exportieren Sie es neu",
    "De pdf is beschadigd: geen van zijn pagina's is te lezen; exporteer hem opnieuw"],
  "the PDF has no text, and text recognition (OCR) finds none; scan it more sharply": [
    "Das PDF hat keinen Text, und die Texterkennung (OCR) findet keinen; scannen Sie es schärfer",
    "De pdf heeft geen tekst, en tekstherkenning (OCR) vindt die niet; scan hem scherper"],
  "the PDF has no text (a scan?); install Tesseract on the machine of the workers, or run text recognition (OCR) over it first": [
    "Das PDF hat keinen Text (ein Scan?); lassen Sie erst eine Texterkennung (OCR) darüberlaufen, oder installieren Sie Tesseract auf dem Rechner der Worker",
    "De pdf heeft geen tekst (een scan?); voer er eerst tekstherkenning (OCR) op uit, of installeer Tesseract op de machine van de workers"],
  "the file is protected by a password; save it without": [
    "Die Datei ist durch ein Passwort geschützt; speichern Sie sie ohne",
    "Het bestand is met een wachtwoord beveiligd; sla het op zonder"],
  "the file is protected by a password, or of an older format; save it without, anew": [
    "Die Datei ist durch ein Passwort geschützt oder in einem älteren Format; speichern Sie sie ohne Passwort neu",
    "Het bestand is met een wachtwoord beveiligd of van een ouder formaat; sla het zonder wachtwoord opnieuw op"],
  "the file is damaged: it cannot be opened as {ending}; {advice}": [
    "Die Datei ist beschädigt und lässt sich nicht als {ending} öffnen; speichern Sie sie in ihrem Programm neu",
    "Het bestand is beschadigd en kan niet als {ending} worden geopend; sla het in zijn programma opnieuw op"],
  "this is no {ending} file, or it is damaged; save it again": [
    "Das ist keine Datei vom Typ {ending}, oder sie ist beschädigt; speichern Sie sie neu",
    "Dit is geen bestand van het type {ending}, of het is beschadigd; sla het opnieuw op"],
  "the file is far larger unpacked than packed; split it": [
    "Die Datei ist entpackt weit größer als gepackt; teilen Sie sie",
    "Het bestand is uitgepakt veel groter dan ingepakt; splits het"],
  "this is not an e-mail: it has neither subject nor sender; save it again": [
    "Das ist keine E-Mail: Betreff und Absender fehlen; speichern Sie sie neu",
    "Dit is geen e-mail: onderwerp en afzender ontbreken; sla hem opnieuw op"],
  "this is not an OpenDocument text, or it is damaged; save it again": [
    "Das ist kein OpenDocument-Text, oder er ist beschädigt; speichern Sie ihn neu",
    "Dit is geen OpenDocument-tekst, of hij is beschadigd; sla hem opnieuw op"],
  "the file cannot be read ({reason}); it is probably damaged: save or export it again": [
    "Die Datei lässt sich nicht lesen ({reason}); sie ist wohl beschädigt: Speichern oder exportieren Sie sie neu",
    "Het bestand is niet te lezen ({reason}); het is waarschijnlijk beschadigd: sla het opnieuw op of exporteer het"],
  "reading took longer than {limit}; simplify or split the file": [
    "Das Lesen dauerte länger als {limit}; vereinfachen oder teilen Sie die Datei",
    "Het lezen duurde langer dan {limit}; vereenvoudig of splits het bestand"],
  "another document of this ingest has the id {id}; give it another name or id": [
    "Ein anderes Dokument wurde mit derselben Kennung {id} hochgeladen; geben Sie ihm einen anderen Namen",
    "Een ander document werd met dezelfde id {id} geüpload; geef het een andere naam"],
};
