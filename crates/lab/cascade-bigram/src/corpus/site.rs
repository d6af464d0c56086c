//! The prefixes of a wiki's links: namespaces and languages.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

/// What `[[prefix:rest]]` is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prefix {
    /// An image or another file: shown as a picture, with its caption.
    File,
    /// A category: shown at the foot of the page.
    Category,
    /// A link to the article in another language: shown in the margin.
    Language,
    /// Another namespace of the wiki: a link to a page there.
    Namespace,
}

/// The namespaces of one wiki, by every name under which they are known.
///
/// A dump opens with the names of its own wiki; to these are added the names that wikis of other
/// languages use, because articles are translated with their markup, and because the alternative
/// names of a wiki (`Image` for `File`) are not in its dump.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    prefixes: HashMap<String, Prefix>,
}

/// The number of the namespace of files.
const FILE: i32 = 6;
/// The number of the namespace of categories.
const CATEGORY: i32 = 14;

impl Default for Site {
    fn default() -> Self {
        let mut prefixes = HashMap::new();
        let groups = [
            (NAMESPACES, Prefix::Namespace),
            (FILES, Prefix::File),
            (CATEGORIES, Prefix::Category),
            (LANGUAGES, Prefix::Language),
        ];
        for (names, prefix) in groups {
            for name in names.split(',') {
                prefixes.insert(name.trim().to_string(), prefix);
            }
        }
        Self { prefixes }
    }
}

impl Site {
    /// The names that are known without a dump's own list.
    pub(crate) fn well_known() -> Arc<Self> {
        static SITE: LazyLock<Arc<Site>> = LazyLock::new(|| Arc::new(Site::default()));
        SITE.clone()
    }

    /// Adds a name of the namespace `number`, as a dump's `<namespace
    /// key="number">name</namespace>` gives it.
    ///
    /// The main namespace has number 0 and no name: nothing is added for it.
    pub(crate) fn add_namespace(&mut self, number: i32, name: &str) {
        let name = normalize(name);
        if number == 0 || name.is_empty() {
            return;
        }
        let prefix = match number {
            FILE => Prefix::File,
            CATEGORY => Prefix::Category,
            _ => Prefix::Namespace,
        };
        self.prefixes.insert(name, prefix);
    }

    /// The meaning of a prefix, if it has one.
    pub(crate) fn prefix(&self, name: &str) -> Option<Prefix> {
        let normal = normalize(name);
        let prefix = self.prefixes.get(&normal).copied()?;
        // Language codes are lower case; a capital makes it a title, as in "No: a novel".
        (prefix != Prefix::Language || normal == name.trim()).then_some(prefix)
    }
}

/// Lower case, spaces for underscores: the form in which names of namespaces are compared.
fn normalize(name: &str) -> String {
    name.trim().replace('_', " ").to_lowercase()
}

const NAMESPACES: &str = "media,special,talk,user,user talk,project,project talk,wikipedia,wikipedia talk,file talk,\
mediawiki,mediawiki talk,template,template talk,help,help talk,category talk,portal,portal talk,draft,draft talk,book,\
book talk,module,module talk,timedtext,timedtext talk,education program,gadget,gadget definition,topic";

const FILES: &str = "file,image,datei,bild,fichier,archivo,imagen,immagine,ficheiro,imagem,arquivo,bestand,afbeelding,\
plik,grafika,файл,изображение,картинка,зображення,выява,датотека,слика,податотека,soubor,súbor,obrázok,fil,billede,bilde,\
tiedosto,kuva,fájl,kép,fișier,fişier,imagine,dosya,resim,şəkil,fayl,αρχείο,εικόνα,ファイル,画像,파일,그림,文件,檔案,档案,\
圖像,图像,图片,圖片,ملف,صورة,پرونده,تصویر,קובץ,תמונה,चित्र,ছবি,ไฟล์,ภาพ,tập tin,hình,berkas,gambar,fitxer,imatge,dosiero,\
fitxategi,irudi,slika,datoteka,attēls,vaizdas,fails,pilt,mynd,delwedd,íomhá,skedari,patsa,пәйел,сүрәт,պատկեր,სურათი,\
grafiko,lêer,beeld,restr,ficheru,imaxe,ficheiru";

const CATEGORIES: &str = "category,kategorie,catégorie,categoría,categoria,kategoria,categorie,категория,категорія,\
катэгорыя,kategori,luokka,kategória,κατηγορία,カテゴリ,분류,分类,分類,تصنيف,رده,קטגוריה,श्रेणी,বিষয়শ্রেণী,หมวดหมู่,\
thể loại,kategorija,категорија,kategorio,kateqoriya,kategoriya,kategorya,flokkur,catagóir,categori,rummad,kategooria,\
կատեգորիա,კატეგორია,санат,төркем,rumann,bólkur";

const LANGUAGES: &str = "aa,ab,ace,ady,af,als,alt,am,ami,an,ang,ann,anp,ar,arc,ary,arz,as,ast,atj,av,avk,awa,ay,az,azb,\
ba,ban,bar,bat-smg,bbc,bcl,bdr,be,be-tarask,be-x-old,bew,bg,bh,bi,bjn,blk,bm,bn,bo,bpy,br,bs,btm,bug,bxr,ca,cbk-zam,cdo,\
ce,ceb,ch,cho,chr,chy,ckb,co,cr,crh,cs,csb,cu,cv,cy,da,dag,de,dga,din,diq,dsb,dtp,dty,dv,dz,ee,el,eml,en,eo,es,et,eu,ext,\
fa,fat,ff,fi,fiu-vro,fj,fo,fon,fr,frp,frr,fur,fy,ga,gag,gan,gcr,gd,gl,glk,gn,gom,gor,got,gpe,gsw,gu,guc,gur,guw,gv,ha,hak,\
haw,he,hi,hif,ho,hr,hsb,ht,hu,hy,hyw,hz,ia,iba,id,ie,ig,igl,ii,ik,ilo,inh,io,is,it,iu,ja,jam,jbo,jv,ka,kaa,kab,kbd,kbp,\
kcg,kg,kge,ki,kj,kk,kl,km,kn,knc,ko,koi,kr,krc,ks,ksh,ku,kus,kv,kw,ky,la,lad,lb,lbe,lez,lfn,lg,li,lij,lld,lmo,ln,lo,lrc,\
lt,ltg,lv,lzh,mad,mai,map-bms,mdf,mg,mh,mhr,mi,min,mk,ml,mn,mni,mnw,mo,mos,mr,mrj,ms,mt,mus,mwl,my,myv,mzn,na,nah,nan,nap,\
nb,nds,nds-nl,ne,new,ng,nia,nl,nn,no,nov,nqo,nr,nrm,nso,nup,nv,ny,oc,olo,om,or,os,pa,pag,pam,pap,pcd,pcm,pdc,pfl,pi,pih,\
pl,pms,pnb,pnt,ps,pt,pwn,qu,rm,rmy,rn,ro,roa-rup,roa-tara,rsk,ru,rue,rup,rw,sa,sah,sat,sc,scn,sco,sd,se,sg,sgs,sh,shi,shn,\
si,simple,sk,skr,sl,sm,smn,sn,so,sq,sr,srn,ss,st,stq,su,sv,sw,syl,szl,szy,ta,tay,tcy,tdd,te,tet,tg,th,ti,tig,tk,tl,tly,tn,\
to,tok,tpi,tr,trv,ts,tt,tum,tw,ty,tyv,udm,ug,uk,ur,uz,ve,vec,vep,vi,vls,vo,vro,wa,war,wo,wuu,xal,xh,xmf,yi,yo,yue,za,zea,\
zgh,zh,zh-classical,zh-cn,zh-min-nan,zh-tw,zh-yue,zu";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_compared_without_case_and_underscores() {
        let site = Site::default();
        assert_eq!(site.prefix(" FILE "), Some(Prefix::File));
        assert_eq!(site.prefix("User_talk"), Some(Prefix::Namespace));
        assert_eq!(site.prefix("de"), Some(Prefix::Language));
        assert_eq!(site.prefix("De"), None);
        assert_eq!(site.prefix("2001"), None);
    }

    #[test]
    fn a_dump_adds_its_own_names() {
        let mut site = Site::default();
        assert_eq!(site.prefix("Kategoreja"), None);
        site.add_namespace(CATEGORY, "Kategoreja");
        site.add_namespace(0, "");
        assert_eq!(site.prefix("Kategoreja"), Some(Prefix::Category));
    }
}
